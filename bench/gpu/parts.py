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
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from case_basics import Case, largest_error
from cases import LARGE, case_of
from driver import CudaError, Device
from entries import LISTS, SIMULATED, Bundle, Entry, read
from launches import Launch, difference
from peaks import peak_of
from processes import GIVES_UP, PART_SECONDS, collected

LAUNCHES = 20
NOT_SIMULATED = "takes the simulator minutes"
Row = dict[str, Any]


class Contest(NamedTuple):
    """The tuned kernels of a row, each in the configurations that fit the device."""

    name: str
    capability: int
    entries: list[Entry]
    kind: str = "timed"

    def kernels(self) -> list[list[Entry]]:
        """The configurations of each kernel."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.kernel, []).append(entry)
        return list(found.values())


Item = Entry | Launch | Contest
"""A kernel with a case of `cases.py`, a launch with its memory, or kernels of which some are chosen."""


def right(device: Any, item: Any, folder: Path) -> Row | None:
    """Is the result NumPy's, or the CPU's, up to rounding?"""
    if isinstance(item, Launch):
        expected = item.memory(folder, "cpu" if item.has_cpu else "simulated")
        named = zip(_repeated(device, item, folder), expected, item.pieces, strict=True)
        off = max((difference(found, array, piece[0]) for found, array, piece in named), default=0.0)
    else:
        case = case_of(item)
        off = largest_error(case, device.run(device.load(item, item.code(folder)), case.grid, case.arguments))
    return {"good": off <= 1, "error": round(off, 4) if np.isfinite(off) else "not a number"}


def agrees(device: Any, item: Any, folder: Path) -> Row | None:
    """Is the result the simulator's, to the bit where PTX defines every bit?"""
    return _agrees_again(device, item, folder) if isinstance(item, Launch) else _agrees(device, item, folder)


def _agrees(device: Any, entry: Entry, folder: Path) -> Row:
    with np.load(folder / SIMULATED) as simulated:
        names = [name for name in simulated.files if name.rpartition(":")[0] == entry.name]
        expected = {int(name.rpartition(":")[2]): simulated[name] for name in names}
    if not expected:
        return {"skipped": NOT_SIMULATED}
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


def fast(device: Any, item: Any, folder: Path) -> Row | None:
    """The timing of a case; None for kernels that are not worth timing."""
    if isinstance(item, Contest):
        return _tuned(device, item, folder)
    if isinstance(item, Launch) or item.kernel not in LARGE:
        return None
    seconds, case = timed(device, item, folder)
    return {"good": seconds > 0, **speed(seconds, case, first_element(item), device.facts)}


def timed(device: Any, entry: Entry, folder: Path) -> tuple[float, Case]:
    """Seconds of a launch at full size, and what that is."""
    case, kernel = LARGE[entry.kernel](entry), device.load(entry, entry.code(folder))
    return device.seconds(kernel, case.grid_on(device.facts), case.arguments, launches=LAUNCHES), case


def _tuned(device: Any, contest: Contest, folder: Path) -> Row:
    """Each kernel in the configuration that is fastest on this device."""
    found = [
        min(((*timed(device, entry, folder), entry) for entry in entries), key=lambda triple: triple[0])
        for entries in contest.kernels()
    ]
    seconds = sum(triple[0] for triple in found)
    row = speed(seconds, together([case for _, case, _ in found]), first_element(contest.entries[0]), device.facts)
    return {"good": seconds > 0, **row, "chosen": "; ".join(described(entry) for *_, entry in found)}


def together(cases: Sequence[Case]) -> Case:
    """The work of several launches."""
    work = {name: sum(getattr(case, name) for case in cases) for name in ("operations", "moved")}
    return cases[0]._replace(**work)


def described(entry: Entry) -> str:
    """The configuration of a kernel: `128x256x64, 8 warps, 3 stages`."""
    blocks = "x".join(str(value) for name, value in entry.constants.items() if name.startswith("BLOCK"))
    return f"{blocks}, {entry.warps} warps, {entry.stages} stages"


def first_element(entry: Entry) -> str:
    """The type of the first array."""
    return next(kind for kind in entry.types.values() if kind.startswith("*")).removeprefix("*")


def speed(seconds: float, work: Case, element: str, facts: dict[str, Any]) -> Row:
    """Work by time, and its share of what the device can do at most with elements of that type, where that is known."""
    row: Row = {"microseconds": round(1e6 * seconds, 2)}
    peak, bandwidth = peak_of(facts).of(element), peak_of(facts).bandwidth
    if seconds > 0 and work.operations:
        row["TFLOP/s"] = round(work.operations / seconds / 1e12, 1)
        row |= {"of peak": f"{work.operations / seconds / 1e12 / peak:.0%}"} if peak else {}
    if seconds > 0 and work.moved:
        row["GB/s"] = round(work.moved / seconds / 1e9, 1)
        row |= {"of bandwidth": f"{work.moved / seconds / 1e9 / bandwidth:.0%}"} if bandwidth else {}
    return row


PARTS: dict[str, Callable[[Any, Any, Path], Row | None]] = {"right": right, "agrees": agrees, "fast": fast}


def fitting(known: Collection[int], capability: int) -> int | None:
    """The architecture whose code a device runs: its own, or the newest older one whose code it runs unchanged."""
    older = [other for other in known if other // 10 == capability // 10 and other < capability < FIRST_OF_ITS_OWN]
    return capability if capability in known else max(older, default=None)


FIRST_OF_ITS_OWN = 90
"""The first capability from which code is for the very device."""


def contents(folder: Path, capability: int) -> Bundle:
    """The launches that a bundle has for a device; kinds that it lacks for this one come from an older one."""
    bundle = read(folder)
    best = fitting({item.capability for item in (*bundle.entries, *bundle.launches)}, capability)
    lists = {name: [item for item in getattr(bundle, name) if item.capability == best] for name in LISTS}
    kinds = {launch.kind for launch in lists["launches"]}
    older = fitting({launch.capability for launch in bundle.launches if launch.kind not in kinds}, capability)
    lists["launches"] += [
        launch
        for launch in bundle.launches
        if launch.capability == older and launch.kind not in kinds and launch.shared <= EVERYWHERE
    ]
    return bundle._replace(**lists)


EVERYWHERE = 99 << 10
"""Bytes of shared memory that a program may have on every device from 8.0 on."""


def chosen(part: str, folder: Path, capability: int, only: str = "") -> list[Item]:
    """The contents of a bundle for a part on a device."""
    bundle = contents(folder, capability)
    items: list[Item] = [*bundle.entries, *bundle.launches]
    if part == "fast":
        items = [item for item in bundle.entries if item.kernel in LARGE and not item.row]
        items += contests(bundle.entries)
    return [item for item in items if re.search(only, item.name)]


def contests(entries: Sequence[Entry]) -> list[Contest]:
    """The rows that kernels are tuned for."""
    rows: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.row:
            rows.setdefault(entry.row, []).append(entry)
    return [Contest(name, found[0].capability, found) for name, found in rows.items()]


def left_out(part: str, folder: Path, capability: int, only: str = "") -> list[Row]:
    """Rows of what a bundle has no code for: skipped, with the reason."""
    found = [] if part == "fast" else contents(folder, capability).left_out
    return [{"name": it.name, "kind": it.kind, "skipped": it.reason} for it in found if re.search(only, it.name)]


def row_of(part: str, device: Any, item: Item, folder: Path) -> Row | None:
    """The row of an item; an error of the driver is one, too."""
    try:
        return PARTS[part](device, item, folder)
    except CudaError as error:
        return {"good": False, "problem": str(error)}


def heading(part: str, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The entries of a part's JSON beside its rows."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"part": part, "date": now, "commit": read(folder).commit, **facts}


def result(part: str, device: Any, folder: Path, rows: Iterable[Row], only: str = "") -> dict[str, Any]:
    """The JSON of a part, of the rows of what `chosen` gives."""
    kinds = {item.name: item.kind for item in chosen(part, folder, device.capability)}
    found = [{"name": row["name"], "kind": kinds[row["name"]], **row} for row in rows if len(row) > 1]
    return {
        **heading(part, device.facts, folder),
        "rows": [*found, *left_out(part, folder, device.capability, only)],
    }


def measured(part: str, device: Any, folder: Path, *, only: str = "", seconds: float = PART_SECONDS) -> dict[str, Any]:
    """The JSON of a part, whose rows are made in this process."""
    end, rows = time.monotonic() + seconds, list[Row]()
    for item in chosen(part, folder, device.capability, only):
        if time.monotonic() > end:
            rows.append({"name": item.name, "skipped": f"not reached within {seconds:.0f} s"})
        else:
            rows.append({"name": item.name, **(row_of(part, device, item, folder) or {})})
    return result(part, device, folder, rows, only)


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
    parser.add_argument("--seconds", type=float, default=PART_SECONDS)
    parser.add_argument("--skip", type=int, help="print rows as lines of JSON, without the first ones")
    return parser.parse_args()


def main() -> int:
    asked, start = parsed_arguments(), time.monotonic()
    try:
        device = Device()
    except CudaError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 2
    items = chosen(asked.part, asked.bundle, device.capability, asked.only)
    if asked.skip is not None:
        return print_rows(asked.part, device, items[asked.skip :], asked.bundle)
    rows = collected(
        [sys.executable, __file__, asked.part, "--bundle", str(asked.bundle), "--only", asked.only],
        [item.name for item in items],
        seconds=asked.seconds,
    )
    found = result(asked.part, device, asked.bundle, rows, asked.only)
    found["seconds"] = round(time.monotonic() - start)
    text = json.dumps(found, indent=1) + "\n"
    if asked.out:
        asked.out.write_text(text)
    print(f"{asked.part}: {summary(found['rows'])}" if asked.out else text)
    return (
        0 if any("good" in row for row in found["rows"]) and all(row.get("good", True) for row in found["rows"]) else 1
    )


def summary(rows: Sequence[Row]) -> str:
    """The number of good rows among those that ran, and the number that did not run."""
    ran = [row for row in rows if "good" in row]
    skipped = f", {len(rows) - len(ran)} skipped" if len(rows) > len(ran) else ""
    return f"{sum(row['good'] for row in ran)} of {len(ran)} good{skipped}"


if __name__ == "__main__":
    sys.exit(main())
