"""Type promotion as an ordered list of named rules: the type in which `a op b` is computed.

promote(int32, float16)                       fp16
promote(bfloat16, int64)                      fp32
promote(float16, float32, right_is_number=True)   fp16: a Python number adapts to the tile

Python numbers also have a type when they are passed to a kernel, and become values of another type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from tilewright.semantics import fp8e4b15
from tilewright.semantics.errors import ForeignNumber, MixedSigns, NoCommonType, NotATile, NumberOutOfRange
from tilewright.semantics.types import (
    bfloat16,
    dtype,
    float8e4b15,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)
from tilewright.support.diagnostics import Diagnostic, SemanticError
from tilewright.support.named_tuple import NamedTuple


class Side(NamedTuple):
    """One operand as promotion sees it: its type, and whether it was a bare Python number."""

    dtype: dtype
    is_number: bool = False


def number_meets_tile(a: Side, b: Side, division: bool) -> dtype | None:
    """A Python number of the same or a lower kind (boolean, integer, float) adapts to the tile."""
    if a.is_number == b.is_number:
        return None
    number, tile = (a.dtype, b.dtype) if a.is_number else (b.dtype, a.dtype)
    if number.kind().value > tile.kind().value:
        return None
    if division and tile.floating:
        return float64 if tile is float64 else float32
    return float16 if tile is float8e4b15 else tile


def either_is(wide: dtype) -> Callable[[Side, Side, bool], dtype | None]:
    """The wide float wins over everything below it."""
    return lambda a, b, division: wide if wide in (a.dtype, b.dtype) else None


def quotient(a: Side, b: Side, division: bool) -> dtype | None:
    """`/` and `%` with a float of up to 32 bits compute in fp32."""
    return float32 if division and (a.dtype.floating or b.dtype.floating) else None


def half(a: Side, b: Side, division: bool) -> dtype | None:
    """fp16 wins over what is left."""
    return float16 if float16 in (a.dtype, b.dtype) else None


def brain_half(a: Side, b: Side, division: bool) -> dtype | None:
    """bf16 survives only next to bf16; with anything else it becomes fp32."""
    if bfloat16 not in (a.dtype, b.dtype):
        return None
    return bfloat16 if a.dtype is b.dtype else float32


def eighth(a: Side, b: Side, division: bool) -> dtype | None:
    """Two different fp8 formats are promoted to fp16, and so is fp8e4b15 with itself: it has no arithmetic."""
    if not (a.dtype.is_fp8() and b.dtype.is_fp8()):
        return None
    return a.dtype if a.dtype is b.dtype is not float8e4b15 else float16


def integers(a: Side, b: Side, division: bool) -> dtype | None:
    """The wider integer wins, and unsigned wins between equal widths; `/`, `//` and `%` refuse mixed signs."""
    left, right = a.dtype, b.dtype
    if not (left.integer and right.integer):
        return None
    if left.signed == right.signed:
        return left if left.primitive_bitwidth > right.primitive_bitwidth else right
    if division:
        raise SemanticError(MixedSigns(left, right))
    unsigned, signed = (right, left) if left.signed else (left, right)
    return unsigned if unsigned.primitive_bitwidth >= signed.primitive_bitwidth else signed


RULES = (number_meets_tile, either_is(float64), quotient, either_is(float32), half, brain_half, eighth, integers)


@cache
def promote(
    left: dtype,
    right: dtype,
    *,
    left_is_number: bool = False,
    right_is_number: bool = False,
    division: bool = False,
) -> dtype:
    """The type in which `left op right` is computed: the first rule with an opinion decides.

    Args:
        left, right: the types of the operands.
        left_is_number, right_is_number: the operand is a Python number, which adapts to a tile.
        division: the op is `/`, `//` or `%`.

    Raises:
        SemanticError: no rule brings the types together.
    """
    a, b = Side(left, left_is_number), Side(right, right_is_number)
    for rule in RULES:
        if (found := rule(a, b, division)) is not None:
            return found
    raise SemanticError(NoCommonType(left, right))


_SMALLEST_NORMAL, _LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
_INTEGER_TYPES = (int32, uint32, int64, uint64)


def dtype_of_number(value: bool | int | float) -> dtype:
    """bool → int1; int → the first of int32, uint32, int64, uint64 that holds it; float → fp32, or fp64 if needed.

    Raises:
        SemanticError: the number is no number, or needs more than 64 bits.
    """
    if isinstance(value, bool):
        return int1
    if isinstance(value, float):
        magnitude = abs(value)
        fits = magnitude in (0.0, math.inf) or math.isnan(value) or _SMALLEST_NORMAL <= magnitude <= _LARGEST
        return float32 if fits else float64
    if not isinstance(value, int):
        raise SemanticError(_no_number(value))
    if -0x80000000 <= value < 0x80000000:
        return int32
    for candidate in _INTEGER_TYPES:
        if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
            return candidate
    raise SemanticError(NumberOutOfRange(value, uint64))


def _no_number(value: Any) -> Diagnostic:
    """The error of what is no number of Python."""
    kind = type(value)
    if not hasattr(kind, "__float__") or getattr(value, "shape", None):
        return NotATile(kind.__name__)
    return ForeignNumber(f"{kind.__module__}.{kind.__name__}", "int" if hasattr(kind, "__index__") else "float")


def number_as(value: Any, target: dtype) -> bool | int | float:
    """The constant `value` in `target`, as a cast computes it; integers wrap and come out signed.

    Raises:
        SemanticError: it is no number, or infinity or NaN as an integer.
    """
    if not hasattr(value, "__float__"):
        raise SemanticError(NotATile(type(value).__name__))
    if target.is_fp8e4b15():
        return fp8e4b15.carried(float(value))
    if target.floating:
        return float(value)
    if target is int1:
        return bool(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise SemanticError(NumberOutOfRange(value, target))
    bits = target.primitive_bitwidth
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped
