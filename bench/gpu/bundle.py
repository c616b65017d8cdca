"""Compile the anchors for several architectures into a folder that needs only Python, NumPy and a driver to run.

    python bench/gpu/bundle.py build/gpu --architectures 80,90,100,120
    cd build/gpu && python parts.py right

For each kernel: PTX, machine code where ptxas is installed, and what a launch has to know of it. Results of the
simulator come along for kernels that it runs quickly, for the part `agrees`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import gpu_static_kernels as kernels
import numpy as np
from cases import case_of
from entries import SIMULATED, Entry, write
from simulator import Simulated

import tilewright
from tilewright.backends.base import GPUTarget

HERE = Path(__file__).parent
ARCHITECTURES = (80, 86, 89, 90, 100, 120)
RUNNER = ("cases.py", "driver.py", "entries.py", "parts.py")
LARGEST = 40 << 20
"""Bytes of a bundle at most."""
SLOW = ("matmul", "matmul_by_descriptors", "attention")
"""Kernels that take the simulator minutes: their results are not in the bundle."""


def shapes() -> list[Any]:
    """The anchors, each shape once."""
    found: dict[str, Any] = {}
    for anchor in kernels.ANCHORS:
        found.setdefault(anchor.name.rpartition("_")[0], anchor)
    return list(found.values())


def compiled(anchor: Any, capability: int) -> tuple[Entry, dict[str, Any]]:
    """A kernel for an architecture: the entry, and its texts."""
    signature = {**anchor.types, **dict.fromkeys(anchor.constants, "constexpr")}
    attributes = {(list(anchor.types).index(name),): [["tt.divisibility", 16]] for name in anchor.aligned}
    source = tilewright.ASTSource(getattr(kernels, anchor.kernel), signature, anchor.constants, attributes)
    options = {"num_warps": anchor.warps, "num_stages": anchor.stages}
    made = tilewright.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    facts, codes = made.metadata, {name: made.asm[name] for name in ("ptx", "cubin") if name in made.asm}
    return Entry(
        name=f"{anchor.name.rpartition('_')[0]}_{capability}",
        kernel=anchor.kernel,
        types=anchor.types,
        constants=anchor.constants,
        capability=capability,
        symbol=facts.name,
        shared=facts.shared,
        warps=facts.num_warps,
        ctas=facts.num_ctas,
        scratch=facts.global_scratch_size,
        has_cubin="cubin" in codes,
    ), codes


def build(folder: Path, architectures: tuple[int, ...], *, only: str = "") -> list[Entry]:
    """Write a bundle."""
    folder.mkdir(parents=True, exist_ok=True)
    entries, simulated = [], {}
    for capability in architectures:
        for anchor in shapes():
            if not re.search(only, anchor.name):
                continue
            try:
                entry, codes = compiled(anchor, capability)
            except tilewright.OutOfResources as error:
                print(f"{anchor.name} on {capability}: {error}", file=sys.stderr)
                continue
            entries.append(entry)
            for suffix, code in codes.items():
                (folder / f"{entry.name}.{suffix}").write_bytes(code if isinstance(code, bytes) else code.encode())
            simulated |= simulated_results(entry, folder)
    np.savez_compressed(folder / SIMULATED, **simulated)
    write(folder, entries, commit())
    for name in RUNNER:
        shutil.copy(HERE / name, folder / name)
    return entries


def simulated_results(entry: Entry, folder: Path) -> dict[str, Any]:
    """What the simulator gives, by name of the kernel and position of the array."""
    if entry.kernel in SLOW:
        return {}
    case, simulator = case_of(entry), Simulated(entry.capability)
    results = simulator.run(
        simulator.load(entry, (folder / f"{entry.name}.ptx").read_bytes()), case.grid, case.arguments
    )
    return {f"{entry.name}:{number}": results[number] for number in case.expected}


def commit() -> str:
    """Of the tree that this is."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--architectures", default=",".join(map(str, ARCHITECTURES)))
    parser.add_argument("--only", default="", help="anchors whose name matches this regular expression")
    asked = parser.parse_args()
    entries = build(asked.folder, tuple(map(int, asked.architectures.split(","))), only=asked.only)
    size = sum(file.stat().st_size for file in asked.folder.iterdir())
    print(f"{asked.folder}: {len(entries)} kernels, {size / 1e6:.1f} MB")
    return int(size > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
