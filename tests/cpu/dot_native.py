"""Compile dots into this process and compare them with NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from tilewright.backends.cpu.dot import DotSpec, Prefetch, dot_workspace_bytes, lower_dot
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder
from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.llvm.machine import Target, compile_object
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Block, Value
from tilewright.ir.types import Type, bf16, f32, f64, i8, i16, i32, i64
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.support.executable_memory import map_code

DTYPES = {
    bf16: ml_dtypes.bfloat16,
    f32: np.float32,
    f64: np.float64,
    i8: np.int8,
    i16: np.int16,
    i32: np.int32,
    i64: np.int64,
}
PARAMETERS = [("ptr", "%a"), ("ptr", "%b"), ("ptr", "%c"), ("ptr", "%w"), ("i64", "%a_stride"), ("i64", "%b_stride")]
A, B, C, WORKSPACE, A_STRIDE, B_STRIDE = Block((BYTES, BYTES, BYTES, BYTES, i64, i64)).args
"""The values of the parameters."""
GUARD = 64
"""Bytes behind the workspace that nobody may write."""

Native = Callable[[int, int, int, int, int, int], None]


def make_spec(
    extents: tuple[int, int, int],
    operand: Type,
    acc: Type,
    *,
    a_transposed: bool = False,
    b_transposed: bool = False,
    zero_init: bool = False,
    padding: int = 0,
) -> DotSpec:
    """A dot of tiles whose rows are `padding` elements apart."""
    m, n, k = extents
    return DotSpec(
        m=m,
        n=n,
        k=k,
        a_type=operand,
        b_type=operand,
        acc_type=acc,
        a_stride=(m if a_transposed else k) + padding,
        b_stride=(k if b_transposed else n) + padding,
        c_stride=n + padding,
        a_transposed=a_transposed,
        b_transposed=b_transposed,
        zero_init=zero_init,
    )


def dot_text(
    specs: Sequence[DotSpec],
    target: Target,
    prefetch: Sequence[Prefetch] = (),
    more: Sequence[tuple[Value, str]] = (),
) -> str:
    """A module with one function per spec: `dot0`, `dot1`, …; `more` parameters are values with the names they get."""
    w = LlvmWriter(target)
    for number, spec in enumerate(specs):
        with w.function(f"dot{number}", [*PARAMETERS, *(("ptr", name) for _, name in more)]):
            block, emitter = Block(), LoopEmitter(w)
            lower_dot(LoopBuilder(block), target, spec, A, B, C, WORKSPACE, prefetch=prefetch)
            for value, (_, name) in zip(A.owner.args, PARAMETERS, strict=True):
                emitter.bind(value, name)
            for value, name in more:
                emitter.bind(value, name)
            emitter.run(block)
    return w.render()


def compile_dots(
    specs: Sequence[DotSpec], target: Target, prefetch: Sequence[Prefetch] = (), *, level: int = 1
) -> list[Native]:
    """Native functions, in the order of the specs, made at this level of LLVM's code generator."""
    blob = link(compile_object(dot_text(specs, target, prefetch), target, opt=level))
    address = map_code(blob.image).address
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)
    return [prototype(address + blob.symbols[f"dot{number}"]) for number in range(len(specs))]


def aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """A 64-byte aligned array of zeros."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    space = np.zeros(size + 64, np.uint8)
    start = -space.ctypes.data % 64
    return space[start : start + size].view(dtype).reshape(shape)


def random_tile(rows: int, stride: int, type: Type, rng: np.random.Generator) -> np.ndarray:
    """All integers of the type are possible; floats are normally distributed."""
    tile = aligned((rows, stride), DTYPES[type])
    if tile.dtype.kind == "i":
        limits = np.iinfo(tile.dtype)
        tile[:] = rng.integers(limits.min, limits.max, tile.shape, endpoint=True, dtype=tile.dtype)
    else:
        tile[:] = rng.standard_normal(tile.shape).astype(tile.dtype)
    return tile


def check(function: Native, spec: DotSpec, target: Target, *, a_stride: int = 0, b_stride: int = 0) -> None:
    """Run on random tiles: the result agrees, and nothing outside C and the workspace is written.

    `a_stride` and `b_stride` are the run-time strides of specs that name them.
    """
    rng = np.random.default_rng(spec.m * 1009 + spec.n * 31 + spec.k)
    a_stride = spec.a_stride if isinstance(spec.a_stride, int) else a_stride
    b_stride = spec.b_stride if isinstance(spec.b_stride, int) else b_stride
    a = random_tile(spec.k if spec.a_transposed else spec.m, a_stride, spec.a_type, rng)
    b = random_tile(spec.n if spec.b_transposed else spec.k, b_stride, spec.b_type, rng)
    c = random_tile(spec.m, spec.c_stride, spec.acc_type, rng)
    workspace = aligned((dot_workspace_bytes(spec, target) + GUARD,), np.uint8)
    workspace[-GUARD:] = 77
    before = c.copy()
    given = a ^ np.int8(-128) if spec.a_biased else a
    function(given.ctypes.data, b.ctypes.data, c.ctypes.data, workspace.ctypes.data, a_stride, b_stride)
    assert (workspace[-GUARD:] == 77).all(), spec
    np.testing.assert_array_equal(c[:, spec.n :], before[:, spec.n :], err_msg=f"behind the rows of C: {spec}")
    compare(c[:, : spec.n], expected(spec, a, b, before), spec)


def expected(spec: DotSpec, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A·B (+ C), in int64 or float64."""
    wide = np.int64 if c.dtype.kind == "i" else np.float64
    left = (a[:, : spec.m].T if spec.a_transposed else a[:, : spec.k]).astype(wide)
    right = (b[:, : spec.k].T if spec.b_transposed else b[:, : spec.n]).astype(wide)
    product = left @ right
    return product if spec.zero_init else product + c[:, : spec.n].astype(wide)


def compare(found: np.ndarray, wanted: np.ndarray, spec: DotSpec) -> None:
    """Integers are equal after wrapping; floats differ by rounding."""
    if found.dtype.kind == "i":
        np.testing.assert_array_equal(found, wanted.astype(found.dtype), err_msg=str(spec))
        return
    error = 3e-6 if found.dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error * spec.k, err_msg=str(spec))
