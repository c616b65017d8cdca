"""Runs a kernel in every way there is and compares: machine code, IR interpreter on each stage, eager interpreter."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.backends.cpu.options import CpuOptions
from tilewright.backends.cpu.pipeline import make_llir, make_obj, make_ttcir
from tilewright.backends.llvm.machine import host_target
from tilewright.compiler.parameters import front_end_parameters
from tilewright.dialects import cpu
from tilewright.frontends import evaluate_kernel
from tilewright.frontends.from_ast import read_function_once
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.runtime.drivers.cpu.launcher import run_grid
from tilewright.runtime.drivers.cpu.records import launch_record
from tilewright.runtime.interpreted import InterpretedFunction
from tilewright.runtime.specialize import argument_spec, specialize
from tilewright.semantics.types import FP8_KINDS
from tilewright.support.executable_memory import map_code
from tilewright.transforms.pipeline import optimize_ttir

assert cpu  # its import declares the ops of ttcir
Array = np.ndarray[Any, Any]

TOLERANCES = {
    np.dtype(np.float64): 1e-12,
    np.dtype(np.float32): 3e-6,
    np.dtype(np.float16): 2e-3,
    np.dtype(ml_dtypes.bfloat16): 1.6e-2,
}

GPU = ""
"""The capability of the simulated GPU that `agree` runs kernels on, instead of this CPU; see `conftest.py`."""
ON_GPU = {"default_dot_input_precision": "ieee", "supported_fp8_dtypes": FP8_KINDS}
"""Exact products, and all 8-bit floats, which devices without them emulate."""
ROUNDING_OF_GPUS = 16
"""The factor by which a GPU may be further off than the interpreters: it fuses products, and approximates powers."""


def agree(
    kernel: Any,
    *arguments: Any,
    grid: Sequence[int] = (1,),
    rtol: float | None = None,
    eager: bool = True,
    **constants: Any,
) -> list[Any]:
    """Run `kernel` as machine code and in the interpreters, each on its own copy of the arrays, and compare all arrays.

    Returns:
        the arguments after the run of the machine code; arrays are copies.
    """
    native = copied(arguments)
    with tw.simulate(GPU) if GPU else nullcontext():
        compiled = kernel[tuple(grid)](*native, **constants, **(ON_GPU if GPU else {}))
    for stage in ("ttir", "ttgir" if GPU else "ttcir"):
        found = copied(arguments)
        run_ir(parsed(compiled.asm[stage]), _named(kernel, found, constants), grid)
        same(native, found, rtol, f"{kernel.__name__}: machine code against {stage}")
    if eager:
        found = copied(arguments)
        InterpretedFunction(kernel.fn)[tuple(grid)](*found, **constants)
        same(native, found, rtol, f"{kernel.__name__}: machine code against eager")
    return native


def module_of(kernel: Any, arguments: Sequence[Any], constants: Mapping[str, Any]) -> Op:
    """The TTIR of a kernel as the front end writes it, before any pass."""
    values = dict(zip(kernel.arg_names, arguments, strict=False)) | constants
    specs = [argument_spec(p.name, specialize(values.get(p.name, p.default), p)) for p in kernel.params]
    function = read_function_once(kernel.fn)
    return evaluate_kernel(function, front_end_parameters(specs), name=kernel.__name__)


def passes_agree(kernel: Any, *arguments: Any, grid: Sequence[int] = (1,), **constants: Any) -> None:
    """After all passes the kernel computes what it computed before the first; where it does not, a pass is named."""
    expected, found = copied(arguments), copied(arguments)
    run_ir(module_of(kernel, arguments, constants), _named(kernel, expected, constants), grid)
    module = optimize_ttir(module_of(kernel, arguments, constants))
    run_ir(module, _named(kernel, found, constants), grid)
    try:
        same(found, expected, None, f"{kernel.__name__} after all passes")
    except AssertionError:
        each_pass_agrees(kernel, *arguments, grid=grid, **constants)
        raise


def each_pass_agrees(kernel: Any, *arguments: Any, grid: Sequence[int] = (1,), **constants: Any) -> None:
    """After every pass the kernel still computes what it computed before the first."""
    module = module_of(kernel, arguments, constants)
    expected = copied(arguments)
    run_ir(module, _named(kernel, expected, constants), grid)

    def check(name: str, module: Op) -> None:
        found = copied(arguments)
        run_ir(module, _named(kernel, found, constants), grid)
        same(found, expected, None, f"{kernel.__name__} after {name}")

    optimize_ttir(module, dump=check)


def _named(kernel: Any, arguments: Sequence[Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(kernel.arg_names, arguments, strict=False)) | dict(constants)


def copied(arguments: Sequence[Any]) -> list[Any]:
    """Copies of arrays that share memory where the originals do; everything else as it is."""
    roots: dict[int, Array] = {}
    return [_copied(argument, roots) if isinstance(argument, np.ndarray) else argument for argument in arguments]


def _copied(array: Array, roots: dict[int, Array]) -> Array:
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    assert root.flags.c_contiguous, "views of contiguous arrays only"
    target = roots.setdefault(id(root), root.copy())
    offset = array.ctypes.data - root.ctypes.data
    return np.ndarray(array.shape, array.dtype, target.reshape(-1).view(np.uint8).data, offset, array.strides)


def same(left: Sequence[Any], right: Sequence[Any], rtol: float | None, message: str) -> None:
    """All arrays are equal, floats to within `rtol` of the largest element (None: by type)."""
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if isinstance(a, np.ndarray):
            close(a, b, rtol, f"{message}, argument {index}")


def close(a: Array, b: Array, rtol: float | None, message: str) -> None:
    """Two arrays are equal, floats to within `rtol`."""
    tolerance = TOLERANCES.get(a.dtype, 0.0) if rtol is None else rtol
    tolerance *= ROUNDING_OF_GPUS if GPU else 1
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b, err_msg=message)
    else:
        wide, other = a.astype(np.float64), b.astype(np.float64)
        finite = np.abs(other[np.isfinite(other)])
        scale = float(finite.max()) if finite.size else 0.0
        np.testing.assert_allclose(wide, other, rtol=tolerance, atol=tolerance * scale * 1e-1, err_msg=message)


def compiled_and_run(text: str, arrays: Sequence[Array], grid: Sequence[int] = (1,)) -> None:
    """Compile TTIR text and run it on `arrays`, one per pointer parameter; for ops that no kernel reaches."""
    target = host_target()
    options, facts = CpuOptions(), {"arguments": ["*i8"] * len(arrays)}
    loops = make_ttcir(parsed(text), facts, options, target)
    blob = link(make_obj(make_llir(loops, facts, options, target), facts, options, target))
    entry = map_code(blob.image).address + blob.symbols[facts["entry"]]
    record = launch_record((*grid, 1, 1)[:3], [a.ctypes.data for a in arrays], ["*i8"] * len(arrays))
    run_grid(entry, record, int(np.prod(grid)), scratch_bytes=facts["scratch_bytes"], num_threads=1)


def parsed(text: str) -> Op:
    """The verified module of `text`."""
    module = parse_module(text)
    verify(module)
    return module


def quick_first(values: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """Test parameters of which all but the `quick` ones are marked slow."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def random_numbers(dtype: Any, shape: int | tuple[int, ...], seed: int = 0, *, special: bool = False) -> Array:
    """Numbers of all sizes and signs; `special` mixes in extremes, zeros, infinities and NaN."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        wide = rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
        small = rng.integers(-9 if kind.kind == "i" else 0, 9, shape).astype(kind)
        numbers = np.where(rng.integers(0, 2, shape) == 0, wide, small)
        extremes: list[Any] = [limits.min, limits.max, 0, 1]
    else:
        numbers = (rng.standard_normal(shape) * np.exp(rng.uniform(-3, 3, shape))).astype(kind)
        extremes = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5]
    if special:
        flat = numbers.reshape(-1)
        places = rng.permutation(flat.size)[: len(extremes) * 3]
        with np.errstate(invalid="ignore"):
            flat[places] = np.resize(np.array(extremes).astype(kind), len(places))
    return numbers


jit = tw.jit
