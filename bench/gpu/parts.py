"""The parts of `make gpu`, each of which can be run alone on what `bundle.py` compiled; the bundle has this file, too.

    python parts.py right   --bundle . --out right.json     # results against NumPy's
    python parts.py agrees  --bundle . --out agrees.json    # results against the simulator's, bit by bit
    python parts.py fast    --bundle . --out fast.json      # TFLOP/s, GB/s

Needs a driver, Python and NumPy. A part ends by itself after `--seconds`; what it did not reach is in the JSON as such.
The exit status is 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from cases import LARGE, case_of, largest_error
from driver import CudaError, Device
from entries import SIMULATED, Entry, read
from launches import Launch, difference
from peaks import peaks
from processes import GIVES_UP, collected

SECONDS = 480
LAUNCHES = 20
Row = dict[str, Any]
Item = Entry | Launch
"""A kernel with a case of `cases.py`, or a launch with its memory."""


def right(device: Any, item: Item, folder: Path) -> Row | None:
    """Is the result NumPy's, or the CPU's, up to rounding?"""
    if isinstance(item, Launch):
        expected = item.memory(folder, "cpu" if item.has_cpu else "simulated")
        named = zip(_repeated(device, item, folder), expected, item.pieces, strict=True)
        off = max((difference(found, array, piece[0]) for found, array, piece in named), default=0.0)
    else:
        case = case_of(item)
        off = largest_error(case, device.run(device.load(item, item.code(folder)), case.grid, case.arguments))
    return {"good": off <= 1, "error": round(off, 4) if np.isfinite(off) else "not a number"}


def agrees(device: Any, item: Item, folder: Path) -> Row | None:
    """Is the result the simulator's, to the bit where PTX defines every bit? None where it was not simulated."""
    return _agrees_again(device, item, folder) if isinstance(item, Launch) else _agrees(device, item, folder)


def _agrees(device: Any, entry: Entry, folder: Path) -> Row | None:
    with np.load(folder / SIMULATED) as simulated:
        names = [name for name in simulated.files if name.rpartition(":")[0] == entry.name]
        expected = {int(name.rpartition(":")[2]): simulated[name] for name in names}
    if not expected:
        return None
    case = case_of(entry)
    results = device.run(device.load(entry, entry.code(folder)), case.grid, case.arguments)
    different = sum(int((_bits(results[number]) != _bits(array)).sum()) for number, array in expected.items())
    row = {"different": different, "elements": sum(array.size for array in expected.values())}
    near = largest_error(case._replace(expected=expected), results) <= 1
    return {"good": not different if entry.exact else near, "to the bit": "yes" if entry.exact else "no", **row}


def _agrees_again(device: Any, launch: Launch, folder: Path) -> Row:
    results, expected = _repeated(device, launch, folder), launch.memory(folder, "simulated")
    triples = [(*pair, piece[0]) for *pair, piece in zip(results, expected, launch.pieces, strict=True)]
    different = sum(int((found != array).sum()) for found, array, _ in triples)
    near = max((difference(*triple) for triple in triples), default=0.0) <= 1
    row = {"different": different, "bytes": sum(found.size for found in results)}
    return {"good": not different if launch.exact else near, "to the bit": "yes" if launch.exact else "no", **row}


def _repeated(device: Any, launch: Launch, folder: Path) -> list[Any]:
    return list(device.repeat(launch, launch.code(folder), launch.memory(folder, "before")))


def _bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def fast(device: Any, item: Item, folder: Path) -> Row | None:
    """How fast is it? None for kernels that are not worth timing."""
    if isinstance(item, Launch) or item.kernel not in LARGE:
        return None
    case = LARGE[item.kernel](item)
    kernel = device.load(item, item.code(folder))
    seconds = device.seconds(kernel, case.grid, case.arguments, launches=LAUNCHES)
    return {"good": seconds > 0, **speed(seconds, case.operations, case.moved, device.facts)}


def speed(seconds: float, operations: float, moved: float, facts: dict[str, Any]) -> Row:
    """Work by time, and its share of what the device can do at most."""
    row: Row = {"microseconds": round(1e6 * seconds, 2)}
    peak, bandwidth = peaks(facts)
    if seconds > 0 and operations:
        row["TFLOP/s"] = round(operations / seconds / 1e12, 1)
        row |= {"of peak": f"{operations / seconds / 1e12 / peak:.0%}"} if peak else {}
    if seconds > 0 and moved:
        row["GB/s"] = round(moved / seconds / 1e9, 1)
        row |= {"of bandwidth": f"{moved / seconds / 1e9 / bandwidth:.0%}"} if bandwidth else {}
    return row


PARTS: dict[str, Callable[[Any, Item, Path], Row | None]] = {"right": right, "agrees": agrees, "fast": fast}


def fitting(items: Sequence[Any], capability: int) -> list[Any]:
    """The kernels for a device: of its own architecture, or of the newest older one whose code it runs unchanged."""
    known = {item.capability for item in items}
    older = [other for other in known if other // 10 == capability // 10 and other < capability < FIRST_OF_ITS_OWN]
    best = capability if capability in known else max(older, default=None)
    return [item for item in items if item.capability == best]


FIRST_OF_ITS_OWN = 90
"""From here on code is for the very device."""


def chosen(folder: Path, capability: int, only: str = "") -> list[Item]:
    """What a bundle has for a device."""
    bundle = read(folder)
    items = [*fitting(bundle.entries, capability), *fitting(bundle.launches, capability)]
    return [item for item in items if re.search(only, item.name)]


def row_of(part: str, device: Any, item: Item, folder: Path) -> Row | None:
    """The row of an item; an error of the driver is one, too."""
    try:
        return PARTS[part](device, item, folder)
    except CudaError as error:
        return {"good": False, "problem": str(error)}


def heading(part: str, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the JSON of a part says beside its rows."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"part": part, "date": now, "commit": read(folder).commit, **facts}


def measured(part: str, device: Any, folder: Path, *, only: str = "", seconds: float = SECONDS) -> dict[str, Any]:
    """The JSON of a part, whose rows are made in this process."""
    end, rows = time.monotonic() + seconds, list[Row]()
    for item in chosen(folder, device.capability, only):
        if time.monotonic() > end:
            rows.append({"name": item.name, "skipped": f"not reached within {seconds:.0f} s"})
        elif row := row_of(part, device, item, folder):
            rows.append({"name": item.name, **row})
    return {**heading(part, device.facts, folder), "rows": rows}


def print_rows(part: str, device: Any, items: Sequence[Item], folder: Path) -> int:
    """A line per item, until the device is of no more use: for `processes.py`."""
    for item in items:
        row = row_of(part, device, item, folder)
        print(json.dumps(row or {}), flush=True)
        if row and "problem" in row:
            return GIVES_UP
    return 0


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--bundle", type=Path, default=Path(__file__).parent)
    parser.add_argument("--out", type=Path, help="a file for the JSON; otherwise it is printed")
    parser.add_argument("--only", default="", help="kernels whose name matches this regular expression")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--skip", type=int, help="print rows as lines of JSON, without the first ones")
    return parser.parse_args()


def main() -> int:
    asked = parsed_arguments()
    try:
        device = Device()
    except CudaError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 2
    items = chosen(asked.bundle, device.capability, asked.only)
    if asked.skip is not None:
        return print_rows(asked.part, device, items[asked.skip :], asked.bundle)
    rows = collected(
        [sys.executable, __file__, asked.part, "--bundle", str(asked.bundle), "--only", asked.only],
        [item.name for item in items],
        seconds=asked.seconds,
    )
    found = {**heading(asked.part, device.facts, asked.bundle), "rows": [row for row in rows if len(row) > 1]}
    text = json.dumps(found, indent=1) + "\n"
    if asked.out:
        asked.out.write_text(text)
    good = sum(row.get("good", False) for row in found["rows"])
    print(f"{asked.part}: {good} of {len(found['rows'])} good" if asked.out else text)
    return 0 if found["rows"] and good == len(found["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
