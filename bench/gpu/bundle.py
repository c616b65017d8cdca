"""Compile kernels for several architectures into a folder that needs only Python, NumPy and a driver to run.

    python bench/gpu/bundle.py build/gpu --architectures 80,90,100,120
    cd build/gpu && python parts.py right

For each kernel: machine code, or PTX where no ptxas is installed, and what a launch has to know of it. Results of the
simulator come along for kernels that it runs quickly, for the part `agrees`. Launches of examples and tests come along
with their memory, before and behind them. What cannot be compiled or simulated is in the bundle as left out, and why.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import gpu_static_kernels as anchors
import numpy as np
import timed_kernels
from cases import case_of
from entries import SIMULATED, Bundle, Entry, LeftOut, write
from gpu_only import NEEDS
from launches import Launch, difference
from recorded_tests import FILES, recorded_file
from recording import is_exact, recorded
from repeated_programs import PROGRAMS, WHOLE
from simulator import Simulated
from timed import TIMED

import tilewright
from tilewright.backends.base import GPUTarget
from tilewright.runtime.drivers.cuda import structs

HERE = Path(__file__).parent
ARCHITECTURES = (80, 86, 89, 90, 100, 120)
RUNNER = (
    *("anchor_cases.py", "case_basics.py", "cases.py", "driver.py", "entries.py", "faults.py", "launches.py"),
    *("parts.py", "peaks.py", "processes.py", "rivals.py", "timed_cases.py", "timed_kernels.py"),
)
"""The scripts, which need Python and NumPy only; `rivals.py` measures more where torch and Triton are."""
LARGEST = 40_000_000
"""Bytes of a bundle at most."""
SLOW = ("matmul", "matmul_by_descriptors", "attention")
"""Kernels that take the simulator minutes, as those that are timed do: their results are not in the bundle."""
TESTS = "tests"
"""The kind of launches that tests make."""
ONLY_FOR = {**dict.fromkeys(("generated", TESTS), (80, 90)), "conformance": (80, 90, 100, 120)}
"""The architectures of some kinds in a bundle for more than two; 8.6 and 8.9 run what 8.0 does."""


class Wanted(NamedTuple):
    """A kernel to compile."""

    name: str
    function: Any
    types: dict[str, str]
    constants: dict[str, Any]
    aligned: tuple[str, ...]
    warps: int
    stages: int
    row: str = ""
    needs: int = 0


def shapes() -> list[Any]:
    """The anchors, each shape once."""
    found: dict[str, Any] = {}
    for anchor in anchors.ANCHORS:
        found.setdefault(anchor.name.rpartition("_")[0], anchor)
    return list(found.values())


def wanted_kernels() -> Iterator[Wanted]:
    """The anchors, and all configurations of what is timed."""
    for anchor in shapes():
        *rest, _ = anchor[2:]
        yield Wanted(anchor.name.rpartition("_")[0], getattr(anchors, anchor.kernel), *rest)
    counts: Counter[str] = Counter()
    for timed in TIMED:
        for constants, warps, stages in timed.configurations:
            name = f"{timed.row.replace(' ', '_')}_{counts[timed.row]}"
            counts[timed.row] += 1
            function, constants = getattr(timed_kernels, timed.kernel), timed.constants | constants
            yield Wanted(name, function, timed.types, constants, timed.aligned, warps, stages, timed.row, timed.needs)


def compiled(wanted: Wanted, capability: int) -> tuple[Entry, dict[str, bytes]]:
    """A kernel for an architecture: the entry, and its texts."""
    signature = {**wanted.types, **dict.fromkeys(wanted.constants, "constexpr")}
    attributes = {(list(wanted.types).index(name),): [["tt.divisibility", 16]] for name in wanted.aligned}
    source = tilewright.ASTSource(wanted.function, signature, wanted.constants, attributes)
    options = {"num_warps": wanted.warps, "num_stages": wanted.stages}
    made = tilewright.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    facts, codes = made.metadata, {name: made.asm[name] for name in ("ptx", "cubin") if name in made.asm}
    return Entry(
        name=f"{wanted.name}_{capability}",
        kernel=wanted.function.__name__,
        types=wanted.types,
        constants=wanted.constants,
        capability=capability,
        symbol=facts.name,
        shared=facts.shared,
        warps=facts.num_warps,
        ctas=facts.num_ctas,
        scratch=facts.global_scratch_size,
        has_cubin="cubin" in codes,
        exact=is_exact(codes["ptx"]),
        stages=wanted.stages,
        row=wanted.row,
    ), {name: code if isinstance(code, bytes) else code.encode() for name, code in codes.items()}


def build(
    folder: Path, architectures: tuple[int, ...], *, only: str = "", jobs: int = 1, keeps_ptx: bool = False
) -> Bundle:
    """Write a bundle of the kernels and programs whose names match; so many processes run programs.

    `keeps_ptx` says whether PTX is kept where there is machine code, for the simulator.
    """
    folder.mkdir(parents=True, exist_ok=True)
    launches, missing = all_recorded(tasks(folder, architectures, only, keeps_ptx=keeps_ptx), jobs)
    entries, too_large = compiled_kernels(folder, architectures, only, keeps_ptx=keeps_ptx)
    bundle = Bundle(entries, launches, [*too_large, *missing], commit())
    write(folder, bundle)
    for name in RUNNER:
        shutil.copy(HERE / name, folder / name)
    shutil.copy(anchors.__file__, folder)
    shutil.copy(structs.__file__, folder / "cuda_structs.py")
    return bundle


def compiled_kernels(
    folder: Path, architectures: tuple[int, ...], only: str, *, keeps_ptx: bool
) -> tuple[list[Entry], list[LeftOut]]:
    """The anchors and what is timed, with what the simulator gives, in the folder; and what does not fit."""
    entries, left_out, simulated = [], list[LeftOut](), {}
    for capability in architectures:
        for wanted in wanted_kernels():
            if wanted.needs > capability or not re.search(only, wanted.name):
                continue
            try:
                entry, codes = compiled(wanted, capability)
            except tilewright.OutOfResources as error:
                kind, name = "timed" if wanted.row else "anchors", f"{wanted.name}_{capability}"
                left_out.append(LeftOut(name, kind, capability, first_line(error)))
                continue
            entries.append(entry)
            simulated |= simulated_results(entry, codes["ptx"])
            entry.write(folder, codes if keeps_ptx or not entry.has_cubin else {"cubin": codes["cubin"]})
    np.savez_compressed(folder / SIMULATED, **simulated)
    return entries, left_out


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    return str(error).splitlines()[0]


class Task(NamedTuple):
    """A program to run for an architecture."""

    folder: Path
    capability: int
    kind: str
    name: str
    keeps_ptx: bool = True


def tasks(folder: Path, architectures: tuple[int, ...], only: str, *, keeps_ptx: bool = True) -> list[Task]:
    """All programs and tests with a name that matches, for all architectures that can run them."""
    found = []
    for capability in architectures:
        for kind, programs in (PROGRAMS | {TESTS: FILES}).items():
            if len(architectures) > 2 and capability not in ONLY_FOR.get(kind, architectures):
                continue
            names = [name for name in programs if re.search(only, name) and NEEDS.get(name, 0) <= capability]
            found += [Task(folder, capability, kind, name, keeps_ptx) for name in names]
    return found


Recorded = tuple[list[Launch], list[LeftOut]]


def all_recorded(wanted: list[Task], jobs: int) -> Recorded:
    """The launches of programs, in their order, and what was left out."""
    if jobs == 1:
        return flat(map(launches_of, wanted))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return flat(pool.map(launches_of, wanted, chunksize=8))


def flat(results: Iterable[Recorded]) -> Recorded:
    """One list of each."""
    launches, left_out = list[Launch](), list[LeftOut]()
    for some, others in results:
        launches += some
        left_out += others
    return launches, left_out


def launches_of(task: Task) -> Recorded:
    """The launches of a program, or of a file of tests; and what of it cannot be compiled, simulated or compared."""
    launches, left_out = all_launches_of(task)
    kept = [launch for launch in launches if is_comparable(launch, task.folder)]
    differing = [launch for launch in launches if launch not in kept]
    for launch in differing:
        launch.file(task.folder).unlink()
    return kept, [*left_out, *(LeftOut(it.name, it.kind, it.capability, DIFFERS) for it in differing)]


DIFFERS = "the CPU's result is not the simulator's, so neither proves anything"


def is_comparable(launch: Launch, folder: Path) -> bool:
    """Are the results of CPU and simulator the same, up to rounding? Those of a clock, for example, are not."""
    states = [launch.memory(folder, state) for state in ("simulated", "cpu")]
    triples = zip(*states, launch.pieces, strict=True)
    return not launch.has_cpu or all(difference(found, on_cpu, piece[0]) <= 1 for found, on_cpu, piece in triples)


def all_launches_of(task: Task) -> Recorded:
    """The launches of a program, or of a file of tests; and what of it cannot be compiled or simulated."""
    if task.kind == TESTS:
        launches, reasons = recorded_file(task.name, task.capability, task.folder, keeps_ptx=task.keeps_ptx)
        return launches, [LeftOut(name, TESTS, task.capability, reason) for name, reason in reasons.items()]
    facts = {"is_whole": task.name in WHOLE, "keeps_ptx": task.keeps_ptx}
    with recorded(task.capability, task.folder, task.name, task.kind, **facts) as launches:
        try:
            PROGRAMS[task.kind][task.name]()
        except tilewright.TilewrightError as error:
            name = f"{task.name}_{task.capability}"
            return launches, [LeftOut(name, task.kind, task.capability, first_line(error))]
    return launches, []


def simulated_results(entry: Entry, ptx: bytes) -> dict[str, Any]:
    """The results of the simulator, by name of the kernel and position of the array."""
    if entry.row or entry.kernel in SLOW:
        return {}
    case, simulator = case_of(entry), Simulated(entry.capability)
    results = simulator.run(simulator.load(entry, ptx), case.grid, case.arguments)
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
    parser.add_argument("--only", default="", help="what has a name that matches this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that run programs")
    asked = parser.parse_args()
    architectures = tuple(map(int, asked.architectures.split(",")))
    bundle = build(asked.folder, architectures, only=asked.only, jobs=asked.jobs)
    size = sum(file.stat().st_size for file in asked.folder.rglob("*") if file.is_file())
    found = f"{len(bundle.entries)} kernels, {len(bundle.launches)} launches, {len(bundle.left_out)} left out"
    print(f"{asked.folder}: {found}, {size / 1e6:.1f} MB")
    return int(size > LARGEST)


if __name__ == "__main__":
    sys.exit(main())
