"""The time of products by what takes it (packing, multiply-adds, the code between them), with the loops of each.

    python bench/where.py --only 'matmul 1000'
    TILEWRIGHT_CPU=x86-64-v3 python bench/where.py --only 'bmm|conv2d' --loops 8

Rows are the products and attentions of the table "Run", and all of "Kernels of others". `perf` samples the program
counter while ours runs, and `objdump` shows the code; both have to be installed. An innermost loop with multiply-adds
is "product", one without is "packing" (or copies, or elements of a softmax), and what no innermost loop holds is
"between": reading and writing blocks of C, addresses, and the kernel's own scalars. "outside" is the launch and the
measurement. x86-64 only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 1.5
"""The time for which each row runs."""
RATE = 8000
"""Samples per second."""
MULTIPLY_ADDS = re.compile(r"vfn?madd|vdpbf16|vpdpbus|vpmaddwd")
SIZE = {"L1": 0, "L2 or L3": 1}
"""The numbers of the shapes of a row of "Kernels of others", by the cache that has room for their arrays."""


@dataclass(frozen=True)
class Loop:
    """An innermost loop of machine code, from the offset `low` to the jump at `high`."""

    low: int
    high: int
    instructions: int
    multiply_adds: int

    @property
    def kind(self) -> str:
        return "product" if self.multiply_adds else "packing"

    def line(self, share: float) -> str:
        """How much of the time it takes, and what it consists of."""
        each = f", {self.instructions / self.multiply_adds:.2f} each" if self.multiply_adds else ""
        counts = f"{self.instructions} instructions, {self.multiply_adds} multiply-adds{each}"
        return f"    {100 * share:5.1f} %  {self.kind:8s} at {self.low:#x}: {counts}"


def loops_of(instructions: list[tuple[int, str]]) -> list[Loop]:
    """The innermost loops of x86-64 code, given as offsets and texts, in order."""
    found = list[Loop]()
    places = [place for place, _ in instructions]
    jumps = [(int(match[1], 16), place) for place, text in instructions if (match := re.match(r"j\w+ +0x(\w+)", text))]
    backward = sorted(((low, high) for low, high in jumps if low <= high), key=lambda ends: ends[1] - ends[0])
    for low, high in backward:
        if low in places and not any(low < loop.high and loop.low < high for loop in found):
            body = [text for place, text in instructions if low <= place <= high]
            count = sum(MULTIPLY_ADDS.match(text) is not None for text in body)
            found.append(Loop(low, high, len(body), count))
    return sorted(found, key=lambda loop: loop.low)


def disassembled(image: bytes) -> Iterator[tuple[int, str]]:
    """Offset and text of each instruction; what is no code comes as whatever its bytes would be."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(image)
        file.flush()
        command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", "--no-show-raw-insn", file.name]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        if match := re.match(r" +([0-9a-f]+):\t(.*)", line):
            yield int(match[1], 16), match[2]


def rows() -> dict[str, Any]:
    """By name, functions that prepare what runs."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
    from contests import CONTESTS
    from foreign import ROWS

    found: dict[str, Any] = {row.name: row.make for row in CONTESTS if re.match("matmul|flash", row.name)}
    for row in ROWS:
        for size, number in SIZE.items():
            found[f"{row.name}, {size}"] = lambda row=row, number=number: row.make(*row.shapes[number])
    return found


def run(name: str, into: Path) -> None:
    """Launch a row again and again, and write down where its code lies."""
    from tilewright.runtime.drivers.cpu.blob import link

    problem = rows()[name]()
    kernel = problem.launch(problem.out, 1)
    blob = link(kernel.asm["obj"])
    offset = next(at for symbol, at in blob.symbols.items() if symbol == kernel.metadata.entry)
    (into / "image").write_bytes(blob.image)
    (into / "place.json").write_text(json.dumps({"start": kernel.entry - offset, "operations": problem.operations}))
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        problem.launch(problem.out, 1)


def sampled(name: str, into: Path) -> list[int]:
    """Run a row in a process of its own; returns the program counter at each sample."""
    data, script = into / "perf.data", [sys.executable, __file__, "--run", name, "--into", str(into)]
    record = ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", str(RATE), "-o", str(data), "--", *script]
    subprocess.run(record, check=True, stdout=sys.stderr)
    script = ["perf", "script", "-i", str(data), "-F", "ip"]
    listing = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return [int(word, 16) for word in listing.split()]


def report(name: str, most: int) -> Iterator[str]:
    """The lines about one row."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder)
        samples = sampled(name, into)
        place, image = json.loads((into / "place.json").read_text()), (into / "image").read_bytes()
    loops = loops_of(list(disassembled(image)))
    starts, hits = [loop.low for loop in loops], Counter[Loop | str]()
    for sample in samples:
        at = sample - place["start"]
        number = bisect_right(starts, at) - 1
        inside = number >= 0 and at <= loops[number].high
        hits[loops[number] if inside else "between" if 0 <= at < len(image) else "outside"] += 1
    within = sum(hits.values()) - hits["outside"]
    kinds = Counter[str]()
    for key, count in hits.items():
        kinds[key if isinstance(key, str) else key.kind] += count
    parts = (f"{kind} {100 * kinds[kind] / within:.1f} %" for kind in ("packing", "product", "between"))
    yield f"{name}: {', '.join(parts)} of {within} samples ({kinds['outside']} outside)"
    for key, count in hits.most_common(most + 2):
        if isinstance(key, Loop):
            yield key.line(count / within)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="matmul", help="rows whose name matches this regular expression")
    parser.add_argument("--loops", type=int, default=5, help="how many loops to print of each row")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    if arguments.run:
        run(arguments.run, arguments.into)
        return
    for name in rows():
        if re.search(arguments.only, name):
            print(*report(name, arguments.loops), sep="\n", flush=True)


if __name__ == "__main__":
    main()
