"""Python numbers on their way into the kernel: which type they have, and what they become in another type."""

from __future__ import annotations

import math
from typing import Any

from tilewright.semantics import fp8e4b15
from tilewright.semantics.errors import NotATile, NumberOutOfRange
from tilewright.semantics.types import dtype, float32, float64, int1, int32, int64, uint32, uint64
from tilewright.support.diagnostics import SemanticError

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
        raise SemanticError(NotATile(type(value).__name__))
    if -0x80000000 <= value < 0x80000000:
        return int32
    for candidate in _INTEGER_TYPES:
        if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
            return candidate
    raise SemanticError(NumberOutOfRange(value, uint64))


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
