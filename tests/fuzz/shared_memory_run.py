"""Runs a kernel that reads and writes shared memory as machine code and in Python, and says where the results differ.

problem = disagreement(program, folder, Way())   None, or a `Problem`; raises Undefined where there is no one result
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from kinds import FLOATS, NUMPY, Array
from shared_memory_kernels import REGION, Launch, SharedProgram, program
from shrink import smaller_while
from watched_run import Undefined, watched
from ways_to_run import Problem, module_of

from machine_levels import compiled_for, cpu_of
from tilewright.backends.cpu import pipeline
from tilewright.backends.llvm.machine import compile_object
from tilewright.compiler import compile
from tilewright.interpreter.memory import OutOfBoundsError
from tilewright.runtime.interpreted import InterpretedFunction

PROGRAMS = 4
SIZE = REGION * (PROGRAMS + 1)
"""The size of each array, in elements."""
CHECKS = (*["bounds"] * 7, "races", "uninit", "bounds,races,uninit")


def memory(dtype: Any, values: Array) -> Array:
    """The values, at an address that is a multiple of 64."""
    whole = np.empty(values.size + 64 // dtype.itemsize, dtype)
    start = -whole.ctypes.data % 64 // dtype.itemsize
    whole[start : start + values.size] = values
    return whole[start : start + values.size]


@cache
def small_numbers(seed: int) -> Array:
    """The numbers in `a`, `x` and `y`."""
    return np.random.default_rng(seed).integers(-4, 10, (3, SIZE)).astype(np.int8)


def in_dtype(numbers: Array, dtype: str) -> Array:
    """The numbers as elements of the dtype: unsigned ones stay small, and for floats -1 stands for -0.0."""
    if dtype.startswith("u"):
        return numbers & 15
    return np.where(numbers == -1, -0.0, numbers) if dtype in FLOATS else numbers


@lru_cache(maxsize=256)
def indices(seed: int, tile: int) -> Array:
    """The numbers in `g`: in each region distinct ones first, then any, all less than the tile's size."""
    numbers = np.random.default_rng(seed)
    parts = [(numbers.permutation(tile), numbers.integers(0, tile, REGION - tile)) for _ in range(PROGRAMS)]
    return np.concatenate([part for two in parts for part in two]).astype(np.int32)


class Arguments:
    """The arguments of a launch, each time new."""

    def __init__(self, program: SharedProgram, launch: Launch) -> None:
        numbers = in_dtype(small_numbers(launch.seed), program.dtype)
        self.arrays = {name: memory(NUMPY[program.dtype], row) for name, row in zip("axy", numbers, strict=True)}
        self.arrays["g"] = memory(np.dtype(np.int32), indices(launch.seed, program.size))
        whole = self.arrays["a"]
        self.views = {
            f"p{k}": whole[offset:].view(NUMPY[view])
            for k, (offset, view) in enumerate(zip(launch.offsets, program.views, strict=True))
        }
        self.scalars = {"n": launch.n, "m": launch.m, "d": launch.d, "s": launch.s}

    def named(self) -> dict[str, Any]:
        """All arguments by parameter."""
        return {**self.views, **{name: self.arrays[name] for name in "xyg"}, **self.scalars}


@contextmanager
def optimized(level: int) -> Iterator[None]:
    """Machine code is made at a level of LLVM's code generator, and the text of what came before is not kept.

    0 takes half the time of 1, which is what users get.
    """
    before = pipeline.compile_object, compile.stored
    pipeline.compile_object = partial(compile_object, opt=level)
    compile.stored = lambda product: product if isinstance(product, bytes) else ""
    try:
        yield
    finally:
        pipeline.compile_object, compile.stored = before


@dataclass(frozen=True)
class Way:
    """A way to make machine code.

    Attributes:
        level: of LLVM's code generator.
        checks: what the sanitizer checks.
        cpu: a processor or level that it is for; "": this machine's own.
    """

    level: int = 0
    checks: str = ""
    cpu: str = ""


def way_of(seed: int) -> Way:
    """Every tenth program is made as users get it; every tenth has the sanitizer, which takes five times as long."""
    checks = CHECKS[seed // 10 % len(CHECKS)] if seed % 10 == 9 else ""
    return Way(int(seed % 10 == 0), checks, cpu_of(seed))


def disagreement(program: SharedProgram, folder: Path, way: Way) -> Problem | None:
    """The fault of the first launch that goes wrong: machine code fails, or memory is not what Python leaves.

    Raises:
        Undefined: some launch has no one result.
    """
    kernel = module_of(program.text, folder).kernel
    python = InterpretedFunction(kernel.fn)
    expected = [in_python(python, program, launch) for launch in program.launches]
    options: dict[str, Any] = {"sanitize": way.checks} if way.checks else {}
    for launch, arrays in zip(program.launches, expected, strict=True):
        found = Arguments(program, launch)
        try:
            with optimized(way.level), compiled_for(way.cpu):
                kernel[launch.grid](**found.named(), num_threads=launch.threads, enable_fp_fusion=False, **options)
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
            kernel[launch.grid](**arguments.named())
    except OutOfBoundsError as error:
        raise Undefined(str(error)) from None
    return arguments.arrays


def first_difference(expected: dict[str, Array], found: dict[str, Array]) -> str:
    """The place where the first arrays differ in bits; NaNs are all alike."""
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


def defined_program(seed: int, folder: Path) -> tuple[SharedProgram, Problem | None]:
    """The first program of the seed that is defined, and what is wrong with it."""
    rng, way = Random(seed), way_of(seed)
    while True:
        drawn = program(rng, lean=bool(way.checks), rows=seed % 5 == 1)
        try:
            return drawn, disagreement(drawn, folder, way)
        except Undefined:
            continue


def cut_down(drawn: SharedProgram, problem: Problem, folder: Path, way: Way, *, attempts: int = 400) -> SharedProgram:
    """The rest of a program without all that the problem does not need."""

    def has_problem(candidate: SharedProgram) -> bool:
        try:
            return problem.resembles(disagreement(candidate, folder, way)) and is_steady(candidate, folder)
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
    simple = replace(drawn.launches[0], grid=(1,) * len(drawn.launches[0].grid), threads=1)
    return [*changes, {"launches": (simple,)}]


def runnable(drawn: SharedProgram, cpu: str = "") -> str:
    """A script that shows the problem by itself, of code for the processor."""
    launch = drawn.launches[0]
    views = [
        f"p{k}=whole[{offset}:]" + (f".view(np.{view})" if view != drawn.dtype else "")
        for k, (offset, view) in enumerate(zip(launch.offsets, drawn.views, strict=True))
    ]
    dtype = "ml_dtypes.bfloat16" if drawn.dtype == "bfloat16" else f"np.{drawn.dtype}"
    numbers = {"u": "drawn & 15", "f": "np.where(drawn == -1, -0.0, drawn)", "b": "np.where(drawn == -1, -0.0, drawn)"}
    return SCRIPT.format(
        text=drawn.text.strip(),
        cpu=f'\ntw.knobs.tilewright.cpu = "{cpu}"' if cpu else "",
        size=SIZE,
        numbers=numbers.get(drawn.dtype[0], "drawn"),
        region=REGION,
        programs=PROGRAMS,
        tile=drawn.size,
        seed=launch.seed,
        dtype=dtype,
        views=", ".join(views),
        scalars=f"n={launch.n}, m={launch.m}, d={launch.d}, s={launch.s}",
        grid=launch.grid,
        threads=launch.threads,
        imports="import ml_dtypes\n" if "bfloat16" in dtype else "",
    )


SCRIPT = """{imports}import numpy as np
{text}
{cpu}


def run(function, **options):
    drawn = np.random.default_rng({seed}).integers(-4, 10, (3, {size})).astype(np.int8)
    whole, x, y = ({numbers}).astype({dtype})
    numbers = np.random.default_rng({seed})
    parts = [(numbers.permutation({tile}), numbers.integers(0, {tile}, {region} - {tile})) for _ in range({programs})]
    g = np.concatenate([part for two in parts for part in two]).astype(np.int32)
    function[{grid}]({views}, x=x, y=y, g=g, {scalars}, **options)
    return whole, x, y


python = tw.jit(interpret=True)(kernel.fn)
for name, a, b in zip(("p", "x", "y"), run(python), run(kernel, num_threads={threads}, enable_fp_fusion=False)):
    places = np.flatnonzero((a != b) | (np.signbit(a) != np.signbit(b)))
    print(name, "should be", a[places][:12], "and is", b[places][:12], "at", places[:12], f"({{len(places)}} differ)")
"""
