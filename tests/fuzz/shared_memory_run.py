"""Runs a kernel that reads and writes shared memory as machine code and in Python, and says where the results differ.

problem = disagreement(program, folder)      None, or a `Problem`; raises Undefined where there is no one result
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from kinds import NUMPY, Array
from shared_memory_kernels import REGION, Launch, SharedProgram, program
from shrink import smaller_while
from watched_run import Undefined, watched
from ways_to_run import Problem, module_of

from tilewright.interpreter.memory import OutOfBoundsError
from tilewright.runtime.interpreted import InterpretedFunction

PROGRAMS = 3
CHECKS = "bounds,races,uninit"


def memory(dtype: Any, values: Array) -> Array:
    """The values, at an address that is a multiple of 64."""
    whole = np.empty(values.size + 64 // dtype.itemsize, dtype)
    start = -whole.ctypes.data % 64 // dtype.itemsize
    whole[start : start + values.size] = values
    return whole[start : start + values.size]


class Arguments:
    """The arguments of a launch, each time new."""

    def __init__(self, program: SharedProgram, launch: Launch) -> None:
        numbers = np.random.default_rng(launch.seed)
        dtype = NUMPY[program.dtype]
        size = REGION * (PROGRAMS + 1)
        least = 0 if program.dtype.startswith("u") else -4
        self.arrays = {name: memory(dtype, numbers.integers(least, 10, size).astype(dtype)) for name in "axy"}
        tile = program.size
        parts = [(numbers.permutation(tile), numbers.integers(0, tile, REGION - tile)) for _ in range(PROGRAMS)]
        indices = np.concatenate([part for two in parts for part in two])
        self.arrays["g"] = memory(np.dtype(np.int32), indices.astype(np.int32))
        whole = self.arrays["a"]
        self.views = {
            f"p{k}": whole[offset:].view(NUMPY[view])
            for k, (offset, view) in enumerate(zip(launch.offsets, program.views, strict=True))
        }
        self.scalars = {"n": launch.n, "m": launch.m, "d": launch.d}

    def named(self) -> dict[str, Any]:
        """All arguments by parameter."""
        return {**self.views, **{name: self.arrays[name] for name in "xyg"}, **self.scalars}


def disagreement(program: SharedProgram, folder: Path, *, sanitized: bool = False) -> Problem | None:
    """How the first launch goes wrong: machine code fails, or memory is not what Python leaves.

    Raises:
        Undefined: some launch has no one result.
    """
    kernel = module_of(program.text, folder).kernel
    python = InterpretedFunction(kernel.fn)
    expected = [in_python(python, program, launch) for launch in program.launches]
    options: dict[str, Any] = {"sanitize": CHECKS} if sanitized else {}
    for launch, arrays in zip(program.launches, expected, strict=True):
        found = Arguments(program, launch)
        try:
            kernel[(launch.programs,)](**found.named(), num_threads=launch.threads, enable_fp_fusion=False, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the program is about
            return Problem("native fails", f"{type(error).__name__}: {error}")
        if difference := first_difference(arrays, found.arrays):
            return Problem("eager against native", f"{difference}; {launch}")
    return None


def in_python(kernel: Any, program: SharedProgram, launch: Launch) -> dict[str, Array]:
    """The arrays after the launch in Python."""
    arguments = Arguments(program, launch)
    try:
        with warnings.catch_warnings(), watched(repeats="= tl.atomic" not in program.text):
            warnings.simplefilter("ignore")
            kernel[(launch.programs,)](**arguments.named())
    except OutOfBoundsError as error:
        raise Undefined(str(error)) from None
    return arguments.arrays


def first_difference(expected: dict[str, Array], found: dict[str, Array]) -> str:
    """Where the first arrays differ in bits; NaNs are all alike."""
    for name, a in expected.items():
        b = found[name]
        differs = a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")
        if not differs.any():
            continue
        if a.dtype.kind not in "iu":
            differs &= ~((a != a) & (b != b))
        places = np.flatnonzero(differs)
        if len(places):
            first = places[0]
            return f"{name}[{first}] should be {a[first]} and is {b[first]}, {len(places)} elements differ"
    return ""


def is_sanitized(seed: int) -> bool:
    """Whether the program of a seed runs with the sanitizer, whose code takes five times as long to make."""
    return seed % 25 == 24


def defined_program(seed: int, folder: Path) -> tuple[SharedProgram, Problem | None]:
    """The first program of the seed that is defined, and what is wrong with it."""
    rng = Random(seed)
    while True:
        drawn = program(rng)
        try:
            return drawn, disagreement(drawn, folder, sanitized=is_sanitized(seed))
        except Undefined:
            continue


def cut_down(
    drawn: SharedProgram, problem: Problem, folder: Path, *, sanitized: bool, attempts: int = 400
) -> SharedProgram:
    """What remains of a program without all that the problem does not need."""

    def has_problem(candidate: SharedProgram) -> bool:
        try:
            found = disagreement(candidate, folder, sanitized=sanitized)
            return problem.resembles(found) and is_steady(candidate, folder)
        except Exception:  # noqa: BLE001 - what does not run in Python is no program
            return False

    return smaller_while(drawn, has_problem, simpler_launches(drawn), attempts=attempts)


def is_steady(program: SharedProgram, folder: Path) -> bool:
    """Whether Python gives the same for arrays in other places: what becomes of addresses is no result."""
    python = InterpretedFunction(module_of(program.text, folder).kernel.fn)
    for launch in program.launches:
        once, again = (in_python(python, program, launch) for _ in range(2))
        if first_difference(once, again):
            return False
    return True


def simpler_launches(drawn: SharedProgram) -> list[dict[str, Any]]:
    """One launch instead of several, one program, one thread."""
    changes: list[dict[str, Any]] = [{"launches": (launch,)} for launch in drawn.launches[::-1]]
    simple = replace(drawn.launches[0], programs=1, threads=1)
    return [*changes, {"launches": (simple,)}]


def runnable(drawn: SharedProgram) -> str:
    """A script that shows the problem by itself."""
    launch = drawn.launches[0]
    least = 0 if drawn.dtype.startswith("u") else -4
    views = [
        f"p{k}=whole[{offset}:]" + (f".view(np.{view})" if view != drawn.dtype else "")
        for k, (offset, view) in enumerate(zip(launch.offsets, drawn.views, strict=True))
    ]
    dtype = "ml_dtypes.bfloat16" if drawn.dtype == "bfloat16" else f"np.{drawn.dtype}"
    return SCRIPT.format(
        text=drawn.text.strip(),
        size=REGION * (PROGRAMS + 1),
        region=REGION,
        programs=PROGRAMS,
        tile=drawn.size,
        seed=launch.seed,
        least=least,
        dtype=dtype,
        views=", ".join(views),
        scalars=f"n={launch.n}, m={launch.m}, d={launch.d}",
        grid=launch.programs,
        threads=launch.threads,
        imports="import ml_dtypes\n" if "bfloat16" in dtype else "",
    )


SCRIPT = """{imports}import numpy as np
{text}


def run(function, **options):
    numbers = np.random.default_rng({seed})
    whole, x, y = (numbers.integers({least}, 10, {size}).astype({dtype}) for _ in range(3))
    parts = [(numbers.permutation({tile}), numbers.integers(0, {tile}, {region} - {tile})) for _ in range({programs})]
    g = np.concatenate([part for two in parts for part in two]).astype(np.int32)
    function[({grid},)]({views}, x=x, y=y, g=g, {scalars}, **options)
    return whole, x, y


python = tw.jit(interpret=True)(kernel.fn)
for name, a, b in zip(("p", "x", "y"), run(python), run(kernel, num_threads={threads}, enable_fp_fusion=False)):
    places = np.flatnonzero(~((a == b) | ((a != a) & (b != b))))
    print(name, "should be", a[places][:12], "and is", b[places][:12], "at", places[:12], f"({{len(places)}} differ)")
"""
