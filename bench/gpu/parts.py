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

SECONDS = 480
LAUNCHES = 20
Row = dict[str, Any]


def right(device: Any, entry: Entry, folder: Path) -> Row | None:
    """Is the result NumPy's, up to rounding?"""
    case = case_of(entry)
    results = device.run(device.load(entry, entry.code(folder)), case.grid, case.arguments)
    off = largest_error(case, results)
    return {"good": off <= 1, "error": round(off, 4) if np.isfinite(off) else "not a number"}


def agrees(device: Any, entry: Entry, folder: Path) -> Row | None:
    """Is the result the simulator's, to the bit? None where it was not simulated."""
    with np.load(folder / SIMULATED) as simulated:
        names = [name for name in simulated.files if name.rpartition(":")[0] == entry.name]
        expected = {int(name.rpartition(":")[2]): simulated[name] for name in names}
    if not expected:
        return None
    case = case_of(entry)
    results = device.run(device.load(entry, entry.code(folder)), case.grid, case.arguments)
    different = sum(int((_bits(results[number]) != _bits(array)).sum()) for number, array in expected.items())
    return {"good": not different, "different": different, "elements": sum(array.size for array in expected.values())}


def _bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def fast(device: Any, entry: Entry, folder: Path) -> Row | None:
    """How fast is it? None for kernels that are not worth timing."""
    if entry.kernel not in LARGE:
        return None
    case = LARGE[entry.kernel](entry)
    kernel = device.load(entry, entry.code(folder))
    seconds = device.seconds(kernel, case.grid, case.arguments, launches=LAUNCHES)
    row: Row = {"good": seconds > 0, "microseconds": round(1e6 * seconds, 2)}
    if seconds > 0 and case.operations:
        row["TFLOP/s"] = round(case.operations / seconds / 1e12, 1)
    if seconds > 0 and case.moved:
        row["GB/s"] = round(case.moved / seconds / 1e9, 1)
    return row


PARTS: dict[str, Callable[[Any, Entry, Path], Row | None]] = {"right": right, "agrees": agrees, "fast": fast}


def fitting(entries: Sequence[Entry], capability: int) -> list[Entry]:
    """The kernels for a device: of its own architecture, or of the newest older one whose code it runs unchanged."""
    known = {entry.capability for entry in entries}
    older = [other for other in known if other // 10 == capability // 10 and other < capability < FIRST_OF_ITS_OWN]
    best = capability if capability in known else max(older, default=None)
    return [entry for entry in entries if entry.capability == best]


FIRST_OF_ITS_OWN = 90
"""From here on code is for the very device."""


def measured(part: str, device: Any, folder: Path, *, only: str = "", seconds: float = SECONDS) -> dict[str, Any]:
    """The JSON of a part."""
    entries, commit = read(folder)
    end, rows = time.monotonic() + seconds, list[Row]()
    chosen = [entry for entry in fitting(entries, device.capability) if re.search(only, entry.name)]
    for entry in chosen:
        if time.monotonic() > end:
            rows.append({"name": entry.name, "skipped": f"not reached within {seconds:.0f} s"})
            continue
        try:
            row = PARTS[part](device, entry, folder)
        except CudaError as error:
            row = {"good": False, "problem": str(error)}
        if row is not None:
            rows.append({"name": entry.name, **row})
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"part": part, "date": now, "commit": commit, **device.facts, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--bundle", type=Path, default=Path(__file__).parent)
    parser.add_argument("--out", type=Path, help="a file for the JSON; otherwise it is printed")
    parser.add_argument("--only", default="", help="kernels whose name matches this regular expression")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    asked = parser.parse_args()
    try:
        device = Device()
    except CudaError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 2
    found = measured(asked.part, device, asked.bundle, only=asked.only, seconds=asked.seconds)
    text = json.dumps(found, indent=1) + "\n"
    if asked.out:
        asked.out.write_text(text)
    good = sum(row.get("good", False) for row in found["rows"])
    print(f"{asked.part}: {good} of {len(found['rows'])} good" if asked.out else text)
    return 0 if found["rows"] and good == len(found["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
