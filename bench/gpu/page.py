"""docs/hardware.md from the JSON that the parts of `make gpu` wrote.

    python bench/gpu/page.py docs/hardware right.json agrees.json fast.json     # keeps them, and writes the page
    python bench/gpu/page.py docs/hardware                                      # writes the page of what is kept

The JSON files that the page is made of are kept in docs/hardware/, by part and device.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTHING = "Nothing has run on hardware yet: code for NVIDIA GPUs was compiled, assembled and simulated."
DRAWN = "seed_"
"""How the names of drawn kernels begin."""
TITLES = {
    "right": "Right: results against those of the CPU",
    "agrees": "Agrees: results against the simulator's",
    "fast": "Fast: kernels at full size",
}
HOW = """
`make gpu` proves the whole road on a machine with an NVIDIA GPU, in three parts that can be run one by one:

    make gpu                                # needs a driver; compiles, runs all parts, writes this page
    make gpu-bundle                         # compiles for several architectures into build/gpu
    python build/gpu/parts.py right         # on a machine with a driver, Python and NumPy only; also agrees, fast

- **right**: results of the kernels of `make bench-gpu-static` against NumPy's; launches of the examples, of what only
  GPUs have, of the tests' kernels and of 300 drawn kernels against the CPU's. Where Tilewright is installed: streams,
  contexts, prints, assertions, torch, and errors.
- **agrees**: results against the simulator's, bit by bit where PTX defines every bit; a difference is a mistake of one
  of them. Where compute-sanitizer is installed: whether it reports the faults that the simulator reports.
- **fast**: TFLOP/s and GB/s by the GPU's clock, and their share of what the device can do. Where torch is installed:
  times against those of cuBLAS and torch's attention, and of Triton where that is installed, too.

A row that fails, crashes or hangs takes no other with it: the next ones are of a new process.

Each writes JSON with device, driver, date and commit; `python bench/gpu/page.py docs/hardware *.json` makes this page
of it.
"""


def page(results: list[dict[str, Any]]) -> str:
    """The page."""
    ran = [result for result in results if any("good" in row for row in result["rows"])]
    if not ran:
        first = NOTHING
    else:
        first = f"Run on {', '.join(sorted({result['device'] for result in ran}))}."
    return (
        "\n".join([first, "", "# Hardware", HOW, *(line for result in ran for line in section(result))]).rstrip() + "\n"
    )


def section(result: dict[str, Any]) -> Iterator[str]:
    """What one part saw on one device."""
    rows, good = result["rows"], sum(row.get("good", False) for row in result["rows"])
    shown = [row for row in rows if not (row["name"].startswith(DRAWN) and row.get("good"))]
    columns = list(dict.fromkeys(key for row in shown for key in row if key not in ("name", "good")))
    yield f"## {TITLES[result['part']]}, {result['device']}"
    yield ""
    yield (
        f"{good} of {len(rows)} good. Capability {result['capability']}, driver {result['driver']}, {result['date']}, "
        f"commit {result['commit']}."
    )
    if len(shown) < len(rows):
        yield f"The {len(rows) - len(shown)} drawn kernels that are good have no line."
    yield ""
    yield f"| kernel | good | {' | '.join(columns)} |"
    yield "|---" * (2 + len(columns)) + "|"
    for row in shown:
        cells = (str(row.get(column, "")) for column in columns)
        yield f"| {row['name']} | {'yes' if row.get('good') else 'no'} | {' | '.join(cells)} |"
    yield ""


def kept_as(result: dict[str, Any]) -> str:
    """The file that a result is kept in."""
    return f"{result['part']}-{re.sub(r'[^a-z0-9]+', '-', result['device'].lower()).strip('-')}.json"


def main() -> None:
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        result = json.loads(Path(name).read_text())
        folder.mkdir(exist_ok=True)
        (folder / kept_as(result)).write_text(json.dumps(result, indent=1) + "\n")
    results = [json.loads(file.read_text()) for file in folder.glob("*.json")] if folder.is_dir() else []
    order = list(TITLES)
    results.sort(key=lambda result: (result["device"], order.index(result["part"])))
    folder.with_suffix(".md").write_text(page(results))


if __name__ == "__main__":
    main()
