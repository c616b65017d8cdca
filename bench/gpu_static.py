"""The table "GPU code": what kernels for NVIDIA's GPUs come to, beside Triton's, without a GPU.

    TRITON_PYTHON=…/bin/python python bench/gpu_static.py [--library] [--only mm64] [--samples 5] [--counts]

Its rows are the anchors of `gpu_static_kernels.py`, or, with --library, the kernels of `gpu_library`, which are written
as libraries write theirs, for three compute capabilities each. `gpu_static_gluon.py` has kernels of Gluon.

Each kernel is compiled by both to cubin, in turns, and the least time counts. PTX of both goes through one assembler
for registers and spills. TRITON_PYTHON names a Python that has Triton 3.9; its wheel has ptxas, too. A cell with two
numbers has ours and Triton's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import gpu_library
from gpu_static_counts import COMPARED, KINDS, body, counts, main_loop
from gpu_static_kernels import ANCHORS, Anchor

import tilewright
from tilewright.backends.base import GPUTarget
from tilewright.backends.nvidia.ptxas import Assembled, assemble, assemble_kernel
from tilewright.backends.nvidia.targets import find
from tilewright.backends.nvidia.tools import find_ptxas

FRONT = ("begin", "ttir", "ttgir", "llir")
"""The steps before LLVM."""
CAPABILITIES = (80, 90, 100)
"""Those that kernels of libraries are compiled for."""
BARS = {"registers": 1.05, "instructions": 1.0, "shared": 1.0, "time": 0.8, "before LLVM": 0.2}


Assembler: TypeAlias = Callable[..., Assembled]


class Code(NamedTuple):
    """The product of one compiler for a kernel.

    Attributes:
        registers, spilled: per thread, spilled in bytes.
        shared: bytes.
        counts, loop: instructions of each kind, in all and per step of the main loop.
        seconds: from source to cubin.
        front: which share of it was before LLVM.
    """

    registers: int
    spilled: int
    shared: int
    counts: dict[str, int]
    loop: dict[str, int]
    seconds: float
    front: float = 0.0


class Triton:
    """A process that has Triton."""

    def __init__(self, python: str) -> None:
        script = Path(__file__).with_name("gpu_static_triton.py")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([python, str(script)], text=True, **pipes)

    def compiled(self, anchor: Anchor) -> dict[str, Any]:
        """One compilation: PTX, shared memory, seconds."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([anchor, 1]) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


def compiled(anchor: Anchor) -> tuple[Any, float]:
    """One compilation by us: the kernel, and its seconds."""
    signature = {**anchor.types, **dict.fromkeys(anchor.constants, "constexpr")}
    attributes = {(list(anchor.types).index(name),): [["tt.divisibility", 16]] for name in anchor.aligned}
    start = time.perf_counter()
    source = tilewright.ASTSource(gpu_library.function(anchor.kernel), signature, anchor.constants, attributes)
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages}
    kernel = tilewright.compile(source, target=GPUTarget("cuda", anchor.capability, 32), options=options)
    return kernel, time.perf_counter() - start


def code_of(
    capability: int, ptx: str, shared: int, seconds: float, front: float = 0.0, *, assembler: Assembler = assemble
) -> Code:
    """The counts for a text of PTX."""
    ptxas = find_ptxas(capability)
    assert ptxas, "needed for registers"
    used = assembler(ptx, find(capability).llvm_cpu, ptxas=ptxas)
    lines = body(ptx)
    return Code(used.registers, used.spilled_bytes, shared, counts(lines), counts(main_loop(lines)), seconds, front)


def measured(anchor: Anchor, triton: Triton, samples: int) -> tuple[Code, Code]:
    """Ours and Triton's, compiled in turns."""
    ours, theirs = [], []
    for _ in range(samples):
        theirs.append(triton.compiled(anchor))
        ours.append(compiled(anchor))
    kernel, seconds = min(ours, key=lambda result: result[1])
    times = kernel.metadata.times
    front = sum(times[step] for step in FRONT) / sum(times.values())
    best = min(theirs, key=lambda answer: answer["seconds"])
    shared, capability = kernel.metadata.shared, anchor.capability
    return (
        code_of(capability, kernel.asm["ptx"], shared, seconds, front, assembler=assemble_kernel),
        code_of(capability, best["ptx"], best["shared"], best["seconds"]),
    )


def excess(ours: dict[str, int], theirs: dict[str, int]) -> Iterator[str]:
    """The kinds of instructions of which we have more."""
    for kind in COMPARED:
        if ours[kind] > theirs[kind]:
            yield f"{kind} {ours[kind]}/{theirs[kind]}"


def row(name: str, ours: Code, theirs: Code) -> str:
    """One line of the table."""
    more = [*excess(ours.counts, theirs.counts), *(f"loop {kind}" for kind in excess(ours.loop, theirs.loop))]
    cells = (
        f"{name:<24}",
        f"{ours.registers:>4} {theirs.registers:>4}",
        f"{ours.spilled:>4} {theirs.spilled:>3}",
        f"{ours.shared:>7} {theirs.shared:>7}",
        f"{ours.counts['all']:>5} {theirs.counts['all']:>5}",
        f"{ours.loop['all']:>4} {theirs.loop['all']:>4}",
        f"{1000 * ours.seconds:>5.0f} {1000 * theirs.seconds:>5.0f} {ours.seconds / theirs.seconds:>5.2f}",
        f"{ours.front:>5.0%}",
        ", ".join(more) or "none",
    )
    return " | ".join(cells)


HEAD = " | ".join(
    (
        f"{'kernel':<24}",
        f"{'registers':>9}",
        f"{'spilled':>8}",
        f"{'shared':>15}",
        f"{'PTX':>11}",
        f"{'loop':>9}",
        f"{'ms to cubin':>17}",
        "front",
        "more than Triton",
    )
)


def counted(ours: dict[str, int], theirs: dict[str, int]) -> str:
    """Every kind that either side has."""
    return "  ".join(f"{kind} {ours[kind]}/{theirs[kind]}" for kind in KINDS if ours[kind] or theirs[kind])


def summary(pairs: list[tuple[Code, Code]]) -> Iterator[str]:
    """Medians, and how many rows are within the bars."""
    ratios = {
        "registers": [a.registers / b.registers for a, b in pairs],
        "instructions": [a.counts["all"] / b.counts["all"] for a, b in pairs],
        "shared": [a.shared / b.shared if b.shared else 1.0 + a.shared for a, b in pairs],
        "time": [a.seconds / b.seconds for a, b in pairs],
        "before LLVM": [a.front for a, _ in pairs],
    }
    for name, found in ratios.items():
        within = sum(value <= BARS[name] for value in found)
        yield f"{name:<13} median {statistics.median(found):.2f}, bar {BARS[name]}; within it: {within} of {len(found)}"
    spilling = sum(a.spilled > b.spilled for a, b in pairs)
    more = sum(bool(list(excess(a.counts, b.counts)) or list(excess(a.loop, b.loop))) for a, b in pairs)
    yield f"rows that spill more: {spilling}; rows with more of {', '.join(COMPARED)}: {more}"


def use_assembler_of(python: str) -> None:
    """Let ptxas be the one of the Triton that this Python has, unless there is a wish for another one."""
    folder = next(Path(python).parents[1].glob("lib/python3*/site-packages/triton/backends/nvidia/bin"))
    os.environ.setdefault("TRITON_PTXAS_PATH", str(folder / "ptxas"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name matches this regular expression")
    parser.add_argument("--library", action="store_true", help="kernels in the style of libraries")
    parser.add_argument("--samples", type=int, default=5, help="compilations by each side")
    parser.add_argument("--counts", action="store_true", help="also print every kind of instruction")
    asked = parser.parse_args()
    python = os.environ.get("TRITON_PYTHON")
    if not python:
        sys.exit("TRITON_PYTHON must name a Python that has Triton 3.9")
    use_assembler_of(python)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRITON_CACHE_DIR": folder, "TRITON_ALWAYS_COMPILE": "1"}
        table(Triton(python), asked)


def table(triton: Triton, asked: argparse.Namespace) -> None:
    """Print it, row by row."""
    print(HEAD)
    pairs = []
    for anchor in gpu_library.anchors(CAPABILITIES) if asked.library else ANCHORS:
        if not re.search(asked.only, anchor.name):
            continue
        try:
            ours, theirs = measured(anchor, triton, asked.samples)
        except Exception as error:  # noqa: BLE001 - a kernel that does not compile is a row, too
            reason = next(iter(str(error).splitlines()), "")
            print(f"{anchor.name:<24} | does not compile: {type(error).__name__}: {reason}", flush=True)
            continue
        pairs.append((ours, theirs))
        print(row(anchor.name, ours, theirs), flush=True)
        if asked.counts:
            print(f"    all   {counted(ours.counts, theirs.counts)}\n    loop  {counted(ours.loop, theirs.loop)}")
    if pairs:
        print(*summary(pairs), sep="\n")


if __name__ == "__main__":
    main()
