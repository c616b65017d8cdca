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
TITLES = {
    "right": "Right: results against NumPy's",
    "agrees": "Agrees: results against the simulator's, bit by bit",
    "fast": "Fast: kernels at full size",
}
HOW = """
`make gpu` proves the whole road on a machine with an NVIDIA GPU, in three parts that can be run one by one:

    make gpu                                # needs a driver; compiles, runs all parts, writes this page
    make gpu-bundle                         # compiles for several architectures into build/gpu
    python build/gpu/parts.py right         # on a machine with a driver, Python and NumPy only; also agrees, fast

| part | what it shows |
|---|---|
| right | results of the kernels of `make bench-gpu-static` against NumPy's |
| agrees | results against the simulator's, bit by bit: a difference is a mistake of one of them |
| fast | TFLOP/s and GB/s by the GPU's clock |

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
    rows = result["rows"]
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in ("name", "good")))
    good = sum(row.get("good", False) for row in rows)
    yield f"## {TITLES[result['part']]}, {result['device']}"
    yield ""
    yield (
        f"{good} of {len(rows)} good. Capability {result['capability']}, driver {result['driver']}, {result['date']}, "
        f"commit {result['commit']}."
    )
    yield ""
    yield f"| kernel | good | {' | '.join(columns)} |"
    yield "|---" * (2 + len(columns)) + "|"
    for row in rows:
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
