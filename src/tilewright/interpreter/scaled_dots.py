"""Scaled matrix products: every group of elements along K has a common factor.

    tt.dot_scaled %a scale %s, %b, %c lhs = e2m1 rhs = bf16      c + (a * s) @ b, in double precision

A scale of 8 bits is the exponent of a power of two (127 is 2 ** 0, 255 is NaN). Two elements of 4 bits share a byte,
the first in its low half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_dot import DotScaled
from tilewright.dialects.ttg_program import Fp4ToFp
from tilewright.dialects.ttng_mma import TensorCoreMmaScaled
from tilewright.interpreter.dots import multiply_add
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array
from tilewright.interpreter.shared_memory import TOKEN, Given, arrive_all, executes_by_name
from tilewright.ir.types import FLOATS

FP4 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])
"""The number for each pattern of 4 bits."""
KINDS = {"e4m3": FLOATS["f8E4M3FN"], "e5m2": FLOATS["f8E5M2"], "bf16": FLOATS["bf16"], "fp16": FLOATS["f16"]}
EXPONENT_OF_ONE = 127
NAN_SCALE = 255


def unpack_fp4(packed: Array, axis: int) -> Array:
    """Twice as many numbers along `axis` as there are bytes."""
    codes = packed.view(np.uint8)
    pairs = np.stack([FP4[codes & 15], FP4[codes >> 4]], axis=axis + 1)
    shape = list(packed.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)


def _numbers(operand: Array, kind: str, axis: int) -> Array:
    """An operand in double precision; `axis` is the one along which it is packed, if it is."""
    if kind == "e2m1":
        return unpack_fp4(np.ascontiguousarray(operand), axis)
    return np.ascontiguousarray(operand).view(numpy_dtype(KINDS[kind])).astype(np.float64)


def _scaled(operand: Array, scale: Array | None, axis: int) -> Array:
    """An operand times its scales, whose last dimension goes along `axis` of the operand."""
    if scale is None:
        return operand
    factors = scale.astype(np.float64)
    if scale.dtype.kind == "i":
        codes = scale.view(np.uint8).astype(np.float64)
        factors = np.where(codes == NAN_SCALE, np.nan, np.exp2(codes - EXPONENT_OF_ONE))
    if axis % operand.ndim != operand.ndim - 1:
        factors = factors.swapaxes(-1, -2)
    return operand * np.repeat(factors, operand.shape[axis] // factors.shape[axis], axis)


@executes("ttg.fp4_to_fp")
def _fp4_to_fp(machine: Interpreter, op: Fp4ToFp, packed: Any) -> Any:
    return unpack_fp4(packed, op.axis).astype(numpy_dtype(op.results[0].type))


@executes("tt.dot_scaled")
def _dot_scaled(machine: Interpreter, op: DotScaled, a: Any, b: Any, c: Any, *scales: Any) -> Any:
    left, right = (scales[0] if op.a_scale else None), (scales[-1] if op.b_scale else None)
    rank = a.ndim
    first = _numbers(a, op.a_type, rank - 1 if op.lhs_k_pack else rank - 2)
    second = _numbers(b, op.b_type, rank - 2 if op.rhs_k_pack else rank - 1)
    return multiply_add(_scaled(first, left, -1), _scaled(second, right, -2), c)


@executes_by_name("ttng.tc_gen5_mma_scaled")
def _gen5_mma_scaled(machine: Interpreter, op: TensorCoreMmaScaled, given: Given) -> Any:
    if given["pred"]:
        target = given["d"]
        rows, columns = target.shape
        a = _numbers(given["a"], op.a_type, int(given["a"].shape[0] == rows))
        b = _numbers(given["b"], op.b_type, int(given["b"].shape[1] != columns))
        start = target if given["useD"] else np.zeros_like(target)
        target[...] = multiply_add(_scaled(a, given["a_scale"], -1), _scaled(b, given["b_scale"], -2), start)
        arrive_all(machine, given)
    return [TOKEN for _ in op.results]
