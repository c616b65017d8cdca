"""docs/hardware.md from the JSON that the parts of `make gpu` wrote.

    python bench/gpu/page.py docs/hardware right.json agrees.json fast.json     # keeps them, and writes the page
    python bench/gpu/page.py docs/hardware                                      # writes the page of what is kept

The JSON files that the page is made of are kept in docs/hardware/, by part and device.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

NOTHING = "Nothing has run on hardware yet: code for NVIDIA GPUs was compiled, assembled and simulated."
WITHOUT_LINES = ("conformance", "generated", "language", "tests")
"""Kinds of rows of which only those that are not good have a line."""
TITLES = {
    "right": "Right: results against those of the CPU",
    "agrees": "Agrees: results against the simulator's",
    "fast": "Fast: kernels at full size",
    "tritons": "Triton's own tests",
}
HOW = """
`make gpu` tests the whole pipeline on a machine with an NVIDIA GPU, in three parts that can be run separately, each in
at most eight minutes:

    make gpu                                # needs a driver; compiles, runs all parts, writes this page
    make gpu-bundle                         # compiles for several architectures into build/gpu, 40 MB at most
    cd build/gpu
    python parts.py right --out right.json  # needs a driver, Python and NumPy; likewise agrees and fast
    python faults.py agrees.json            # adds rows; needs compute-sanitizer, too
    python rivals.py fast.json              # adds rows; needs torch, and Triton for its part

- **right** compares with NumPy the results of the kernels of `make bench-gpu-static`, and of the timed kernels in every
  configuration. It compares with the CPU the launches of the examples, of kernels with features of GPUs only, of the
  kernels of tests/kernels, of the language's tests, of a conformance sample (listed in
  `bench/gpu/conformance_sample.py`), and of 300 generated kernels. Streams, contexts, prints, assertions, torch
  tensors, `__cuda_array_interface__` and recovery from errors are features of Tilewright's own runtime:
  `bench/gpu/runtime.py` tests them, needs Tilewright on the machine, and is not in the bundle; nor is
  `bench/gpu/torch_compiled.py`, in which torch.compile compiles functions and models, with Tilewright as its Triton.
- **agrees** compares results with the simulator's, bit by bit where PTX defines every bit; a difference is an error of
  one of them. If compute-sanitizer is installed, it also checks that this reports the faults that the simulator
  reports. None of its tools looks for a missing fence between stores and the copy engine, and such a kernel may be
  right on hardware by chance. That row runs a kernel on 4 million elements with the fence, where no element may be
  wrong, and without it, and reports how many were wrong.
- **fast** measures TFLOP/s and GB/s by the GPU's clock, and their share of the peak in the device's data sheet; a
  device that is missing in `bench/gpu/peaks.py` has no shares. Products of fp16, bf16 and fp8 (from capability 8.9 on),
  persistent and grouped ones, attention forwards and backwards, softmax and layer norm are tuned on the device: all
  configurations are compiled beforehand, and the fastest counts. If torch is installed, times are compared with those
  of cuBLAS and torch's attention; if Triton is installed, also with Triton's for the same text and configurations.
  Launch overhead and Tilewright's own autotuner need Tilewright on the machine.

`python tests/conformance/hardware.py ~/triton/python --out build/gpu/tritons.json` runs Triton's own tests (those of
the language and of Gluon, and Gluon's tutorials) on the GPU, through `tilewright run`; it needs the packages that these
tests need.

A row that fails, crashes or hangs does not affect others: the next rows run in a new process. A row that did not run is
skipped, with the reason, and counts neither as good nor as failed. A bundle for more than two architectures has
generated kernels and those of the language's tests for 8.x and 9.0 only.

Each part writes JSON with device, driver, date and commit; `python bench/gpu/page.py docs/hardware *.json` makes this
page from these files.
"""


def page(results: list[dict[str, Any]]) -> str:
    """The page."""
    ran = [result for result in results if any("good" in row or "passed" in row for row in result["rows"])]
    if not ran:
        first = NOTHING
    else:
        first = f"Run on {', '.join(sorted({result['device'] for result in ran}))}."
    return (
        "\n".join([first, "", "# Hardware", HOW, *(line for result in ran for line in section(result))]).rstrip() + "\n"
    )


def section(result: dict[str, Any]) -> Iterator[str]:
    """The findings of one part on one device."""
    rows = result["rows"]
    yield f"## {TITLES[result['part']]}, {result['device']}"
    yield ""
    if result["part"] == "tritons":
        yield from tritons_tests(result)
        return
    yield (
        f"{counts(rows)}. Capability {result['capability']}, driver {result['driver']}, {result['date']}, "
        f"commit {result['commit']}."
    )
    yield ""
    yield from table(("kind", "good", "failed", "skipped"), of_kinds(rows))
    yield from bars(result)
    shown = [row for row in rows if "good" in row and not (row.get("kind") in WITHOUT_LINES and row["good"])]
    columns = list(dict.fromkeys(key for row in shown for key in row if key not in ("name", "kind", "good")))
    cells = [[row["name"], "yes" if row["good"] else "no", *(row.get(key, "") for key in columns)] for row in shown]
    yield from table(("kernel", "good", *columns), cells)
    yield from skipped(rows)


def tritons_tests(result: dict[str, Any]) -> Iterator[str]:
    """Triton's own tests by file, and those that fail by function."""
    rows, columns = result["rows"], ("passed", "failed", "skipped", "all")
    sums = {column: sum(row[column] for row in rows) for column in columns}
    yield (
        f"{sums['passed']} of {sums['passed'] + sums['failed']} tests that ran passed, {sums['skipped']} were skipped "
        f"by themselves, of {sums['all']} in all: each process ran one case of each function before the second of any, "
        f"as long as there was time. Nothing in the tests is changed, but that tutorials measure no times. "
        f"Capability {result['capability']}, driver {result['driver']}, {result['date']}, commit {result['commit']}."
    )
    yield ""
    yield from table(("file", *columns), ([row["name"], *(row[column] for column in columns)] for row in rows))
    failures = sorted(result["failures"], key=lambda row: -row["cases"])
    if failures:
        cells = ([row["test"], row["cases"], row["reason"]] for row in failures)
        yield from table(("test that fails", "cases", "reason"), cells)


def counts(rows: list[dict[str, Any]]) -> str:
    """The number of good rows among those that ran, and the number that did not run."""
    ran = [row for row in rows if "good" in row]
    rest = f", {len(rows) - len(ran)} skipped" if len(rows) > len(ran) else ""
    return f"{sum(row['good'] for row in ran)} of {len(ran)} good{rest}"


def of_kinds(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Kind, good, failed, skipped."""
    kinds: dict[str, Counter[Any]] = {}
    for row in rows:
        kinds.setdefault(row.get("kind", "others"), Counter())[row.get("good", "skipped")] += 1
    return [[kind, found[True], found[False], found["skipped"]] for kind, found in kinds.items()]


def skipped(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows that did not run, by reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if "skipped" in row:
            reasons.setdefault(row["skipped"], []).append(row["name"])
    if reasons:
        yield from table(("skipped, because", "rows", "which"), map(skipped_cells, reasons.items()))


def skipped_cells(item: tuple[str, list[str]]) -> list[Any]:
    """A reason, how many rows have it, and some of their names."""
    reason, names = item
    return [reason, len(names), ", ".join(names[:MAX_NAMES]) + ", …" * (len(names) > MAX_NAMES)]


MAX_NAMES = 5


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The lines of a table, with an empty one behind them."""
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
    yield ""


# --- bars -----------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A bar to be reached.

    Attributes:
        text: what is measured.
        column: of the rows.
        rows: a regular expression for their names.
        of: makes one number of theirs.
        least: what that has to be at least.
        device: the only one that it is for.
    """

    text: str
    column: str
    rows: str
    of: Callable[[list[float]], float]
    least: float
    device: str = ""


BARS = (
    Bar("launch: Triton's time / ours", "Triton / ours", "^launch$", min, round(1 / 0.6, 3)),
    Bar("slowest kernel: Triton's time / ours", "Triton / ours", " against others$", min, 0.97),
    Bar("median kernel: Triton's time / ours", "Triton / ours", " against others$", median, 1.0),
    Bar("attention forward: Triton's time / ours", "Triton / ours", "^attention forward.* against", min, 1.0),
    Bar("fp16 product 8192³: TFLOP/s", "TFLOP/s", "^(persistent )?matmul fp16|^mm", max, 650.0, "NVIDIA H200"),
)


def bars(result: dict[str, Any]) -> Iterator[str]:
    """The bars, where there are rows for them."""
    cells = []
    for bar in BARS:
        named = [row for row in result["rows"] if re.search(bar.rows, row["name"]) and bar.column in row]
        if named and bar.device in ("", result["device"]):
            found = bar.of([row[bar.column] for row in named])
            cells.append([bar.text, found, bar.least, "yes" if found >= bar.least else "no"])
    if cells:
        yield from table(("bar", "found", "at least", "reached"), cells)


def kept_as(result: dict[str, Any]) -> str:
    """The file that a result is kept in."""
    return f"{result['part']}-{re.sub(r'[^a-z0-9]+', '-', result['device'].lower()).strip('-')}.json"


def as_text(result: dict[str, Any]) -> str:
    """The JSON of a result, with a line for each row."""
    head = json.dumps({name: value for name, value in result.items() if name != "rows"})
    rows = ",\n".join(map(json.dumps, result["rows"]))
    return f'{head[:-1]}, "rows": [\n{rows}\n]}}\n'


def kept_in(folder: Path) -> list[dict[str, Any]]:
    """The results of a folder by device, in the order of the parts."""
    results = [json.loads(file.read_text()) for file in folder.glob("*.json")] if folder.is_dir() else []
    return sorted(results, key=lambda result: (result["device"], list(TITLES).index(result["part"])))


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        result = json.loads(Path(name).read_text())
        folder.mkdir(exist_ok=True)
        (folder / kept_as(result)).write_text(as_text(result))
    folder.with_suffix(".md").write_text(page(kept_in(folder)))


if __name__ == "__main__":
    main()
