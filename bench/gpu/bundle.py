"""Compile the anchors for several architectures into a folder that needs only Python, NumPy and a driver to run.

    python bench/gpu/bundle.py build/gpu --architectures 80,90,100,120
    cd build/gpu && python parts.py right

For each kernel: PTX, machine code where ptxas is installed, and what a launch has to know of it. Results of the
simulator come along for kernels that it runs quickly, for the part `agrees`. Launches of examples and tests come along
with their memory, before and behind them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import gpu_static_kernels as kernels
import numpy as np
from cases import case_of
from entries import SIMULATED, Bundle, Entry, write
from gpu_only import NEEDS
from launches import Launch
from recording import is_exact, recorded
from repeated_programs import PROGRAMS, WHOLE
from simulator import Simulated

import tilewright
from tilewright.backends.base import GPUTarget

HERE = Path(__file__).parent
ARCHITECTURES = (80, 86, 89, 90, 100, 120)
RUNNER = ("cases.py", "driver.py", "entries.py", "launches.py", "parts.py", "peaks.py", "processes.py")
LARGEST = 40 << 20
"""Bytes of a bundle at most."""
SLOW = ("matmul", "matmul_by_descriptors", "attention")
"""Kernels that take the simulator minutes: their results are not in the bundle."""
GENERATED_FOR = (80, 90)
"""The architectures of drawn programs, in a bundle for more than two."""


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
        exact=is_exact(codes["ptx"]),
    ), codes


def build(folder: Path, architectures: tuple[int, ...], *, only: str = "", jobs: int = 1) -> Bundle:
    """Write a bundle of the kernels and programs whose names match; so many processes run programs."""
    folder.mkdir(parents=True, exist_ok=True)
    launches = all_recorded(tasks(folder, architectures, only), jobs)
    bundle = Bundle(compiled_anchors(folder, architectures, only), launches, commit())
    write(folder, bundle)
    for name in RUNNER:
        shutil.copy(HERE / name, folder / name)
    return bundle


def compiled_anchors(folder: Path, architectures: tuple[int, ...], only: str) -> list[Entry]:
    """The anchors, and what the simulator gives, in the folder."""
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
    return entries


class Task(NamedTuple):
    """A program to run for an architecture."""

    folder: Path
    capability: int
    kind: str
    name: str


def tasks(folder: Path, architectures: tuple[int, ...], only: str) -> list[Task]:
    """All programs with a name that matches, for all architectures that can run them."""
    found = []
    for capability in architectures:
        for kind, programs in PROGRAMS.items():
            if kind == "generated" and len(architectures) > 2 and capability not in GENERATED_FOR:
                continue
            names = [name for name in programs if re.search(only, name) and NEEDS.get(name, 0) <= capability]
            found += [Task(folder, capability, kind, name) for name in names]
    return found


def all_recorded(wanted: list[Task], jobs: int) -> list[Launch]:
    """The launches of programs, in their order."""
    if jobs == 1:
        results = map(launches_of, wanted)
        return [launch for launches in results for launch in launches]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return [launch for launches in pool.map(launches_of, wanted, chunksize=8) for launch in launches]


def launches_of(task: Task) -> list[Launch]:
    """The launches of a program; what cannot be compiled or simulated is left out, and said."""
    is_whole = task.name in WHOLE
    with recorded(task.capability, task.folder, task.name, task.kind, is_whole=is_whole) as launches:
        try:
            PROGRAMS[task.kind][task.name]()
        except tilewright.TilewrightError as error:
            print(f"{task.name} on {task.capability}: {str(error).splitlines()[0]}", file=sys.stderr)
    return launches


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
    """The commit of this checkout, or `unknown`."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--architectures", default=",".join(map(str, ARCHITECTURES)))
    parser.add_argument("--only", default="", help="anchors whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that run programs")
    asked = parser.parse_args()
    architectures = tuple(map(int, asked.architectures.split(",")))
    bundle = build(asked.folder, architectures, only=asked.only, jobs=asked.jobs)
    size = sum(file.stat().st_size for file in asked.folder.rglob("*") if file.is_file())
    print(f"{asked.folder}: {len(bundle.entries)} kernels, {len(bundle.launches)} launches, {size / 1e6:.1f} MB")
    return int(size > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
