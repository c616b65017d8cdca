"""Runs a generated program in every way there is, and says where two ways differ.

problem = disagreement(program, folder)      None, or a `Problem` with `.where` and `.what`
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any
from zlib import crc32

import numpy as np
from kinds import NUMPY, Array, numbers
from memory_forms import INPUT
from statements import Program

import tilewright as tw
from tilewright.compiler.parameters import front_end_parameters
from tilewright.frontends import EvaluateOptions
from tilewright.frontends.choice import make_ttir
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.runtime.interpreted import InterpretedFunction
from tilewright.runtime.specialize import argument_spec, specialize
from tilewright.support.diagnostics import Unsupported

NEARLY = 4e-6
"""Max distance of results of functions that round, as a share of the larger number."""
MARGIN = 64


@dataclass(frozen=True)
class Problem:
    """The problem of a program: between which ways it shows, and how."""

    where: str
    what: str

    def resembles(self, other: Problem | None) -> bool:
        """Whether `other` is the same problem, perhaps of another kernel: equal ways, and equal errors."""
        if other is None or self.where != other.where:
            return False
        return not self.where.endswith("fails") or self.what[:60] == other.what[:60]


class Arguments:
    """The arguments of a launch, each time new: arrays by parameter, scalars and constants."""

    def __init__(self, program: Program) -> None:
        self.program = program
        programs = int(np.prod(program.grid))
        self.arrays: dict[str, Array] = {}
        widths = {name: width + MARGIN for name, width in program.outputs.items()}
        for name, width in widths.items():
            dtype = name.split("_")[1]
            self.arrays[name] = numbers(dtype, programs * width, program.seed + 1)
        for name in program.counted:
            dtype = name.split("_")[0]
            filler = np.arange(64) if dtype == "float32" else numbers(dtype, 64, program.seed + 2)
            self.arrays[f"a_{name}"] = filler.astype(NUMPY[dtype])
        for dtype in program.inputs:
            self.arrays[f"x_{dtype}"] = self.input(dtype)
        self.scalars = {"n": program.n, "m": program.m}
        self.constants = {f"WIDTH_{name}": width for name, width in widths.items()}

    def input(self, dtype: str) -> Array:
        """The array of a dtype that is read; of an aliased program a part of the output's memory."""
        values = numbers(dtype, INPUT, self.program.seed)
        output = self.arrays.get(f"o_{dtype}")
        if not self.program.aliased or output is None:
            return values
        whole = np.concatenate([values, output])
        self.arrays[f"o_{dtype}"] = whole[16 : 16 + len(output)]
        return whole[:INPUT]

    def named(self) -> dict[str, Any]:
        """All arguments by parameter, the constants last."""
        return {**self.arrays, **self.scalars, **self.constants}


def module_of(text: str, folder: Path) -> Any:
    """The module with a text."""
    path = folder / f"generated_{crc32(text.encode()):08x}.py"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    try:
        specification.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


def front_end(kernel: Any, named: dict[str, Any], frontend: str) -> Any:
    """The TTIR of the kernel, before any pass."""
    specs = [argument_spec(p.name, specialize(named.get(p.name, p.default), p)) for p in kernel.params]
    module = make_ttir(
        kernel.fn, front_end_parameters(specs), name="kernel", options=EvaluateOptions(), frontend=frontend
    )
    verify(module)
    return module


def as_interpreted(module: Any) -> None:
    """Have the functions of a module run in Python."""
    for name, value in list(vars(module).items()):
        if isinstance(value, tw.JITFunction):
            setattr(module, name, InterpretedFunction(value.fn))


class Ways:
    """The ways to run one program; each gives the arrays afterwards."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self.module = module_of(program.text, folder)
        self.kernel = self.module.kernel
        self.options = {**program.options, "enable_fp_fusion": False}

    def run_ttir(self) -> dict[str, Array]:
        """The front end's module, run by the interpreter of IR."""
        arguments = Arguments(self.program)
        module = front_end(self.kernel, arguments.named(), "ast")
        run_ir(module, arguments.named(), self.program.grid)
        return arguments.arrays

    def run_native(self) -> dict[str, Array]:
        """Machine code."""
        arguments = Arguments(self.program)
        self.compiled = self.kernel[self.program.grid](**arguments.named(), **self.options)
        return arguments.arrays

    def run_optimized(self) -> dict[str, Array]:
        """TTIR behind the passes, in the interpreter of IR."""
        arguments = Arguments(self.program)
        run_ir(parse_module(self.compiled.asm["ttir"]), arguments.named(), self.program.grid)
        return arguments.arrays

    def run_loops(self) -> dict[str, Array]:
        """The loop level, in the interpreter of IR."""
        arguments = Arguments(self.program)
        run_ir(parse_module(self.compiled.asm["ttcir"]), arguments.named(), self.program.grid)
        return arguments.arrays

    def run_bytecode(self) -> dict[str, Array] | None:
        """The module that the front end makes of bytecode: None where it equals the one made of the source.

        So it is where bytecode does not tell what a condition was, as of a `while` that compares a chain and continues.
        """
        arguments = Arguments(self.program)
        try:
            texts = [print_op(front_end(self.kernel, arguments.named(), name)) for name in ("ast", "bytecode")]
        except Unsupported as error:
            if "a condition of this form" not in str(error):
                raise
            return None
        if texts[0] == texts[1]:
            return None
        run_ir(front_end(self.kernel, arguments.named(), "bytecode"), arguments.named(), self.program.grid)
        return arguments.arrays

    def run_eager(self) -> dict[str, Array]:
        """Python."""
        arguments = Arguments(self.program)
        as_interpreted(self.module)
        self.module.kernel[self.program.grid](**arguments.named())
        return arguments.arrays

    def run_gpu(self, name: str) -> dict[str, Array] | None:
        """A simulated GPU: `90`, or `90x2` with two blocks per cluster, which not every kernel can have: then None."""
        arguments = Arguments(self.program)
        capability, _, blocks = name.partition("x")
        options = {**self.options, "num_ctas": int(blocks or 1)}
        try:
            with tw.simulate(f"cuda:{capability}"):
                self.kernel[self.program.grid](**arguments.named(), **options)
        except Unsupported:
            if not blocks:
                raise
            return None
        return arguments.arrays


def disagreement(
    program: Program, folder: Path, *, gpus: tuple[str, ...] = (), slow: float = 0.0, deep: bool = False
) -> Problem | None:
    """The first way that fails or gives something else than the others.

    Args:
        program: what is run.
        folder: for the file of the kernel.
        gpus: the simulated GPUs on which it runs, too; see `Ways.run_gpu`.
        slow: machine code that takes longer to make than this many seconds is a problem (0: none is).
        deep: run optimised TTIR and the loop level, too, even if all is well.
    """
    ways = Ways(program, folder)
    runs: list[tuple[str, Callable[[], dict[str, Array] | None]]] = [
        ("ttir", ways.run_ttir),
        ("native", ways.run_native),
        *((f"gpu {name}", lambda name=name: ways.run_gpu(name)) for name in gpus),
        *([("optimized", ways.run_optimized), ("loops", ways.run_loops)] if deep else []),
        ("bytecode", ways.run_bytecode),
        ("eager", ways.run_eager),
    ]
    expected: dict[str, Array] = {}
    for name, run in runs:
        start = process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the program is about
            return Problem(f"{name} fails", f"{type(error).__name__}: {error}")
        seconds = process_time() - start
        if name == "native" and 0 < slow < seconds and (again := seconds_to_compile(program, folder)) > slow:
            return Problem("native is slow", f"{again:.1f} s")
        expected = expected or found or {}
        difference = first_difference(expected, found) if found is not None else ""
        if difference:
            return Problem(f"ttir against {name}", difference)
    return None


def seconds_to_compile(program: Program, folder: Path) -> float:
    """CPU time until the first launch is over, without what was slow by chance."""
    gc.collect()
    ways = Ways(replace(program, text=f"{program.text}# once more\n"), folder)
    start = process_time()
    ways.run_native()
    return process_time() - start


def first_difference(left: dict[str, Array], right: dict[str, Array]) -> str:
    """The place where the first arrays differ; "" if none do."""
    for name, a in left.items():
        b = right[name]
        if a.dtype.kind in "biu":
            differs = a != b
        else:
            with np.errstate(all="ignore"):
                x, y = a.astype(np.float64), b.astype(np.float64)
                bound = NEARLY * np.maximum(np.abs(x), np.abs(y)) + NEARLY if name.startswith("near") else 0.0
                equal = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound)
                signs = (np.signbit(x) != np.signbit(y)) & ~np.isnan(x) & (not name.startswith("near"))
            differs = ~equal | signs
        if differs.any():
            places = np.flatnonzero(differs)
            first = places[0]
            return f"{name}[{first}] is {a[first]} and {b[first]}, {len(places)} of {a.size} differ"
    return ""
