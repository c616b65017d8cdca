"""Arithmetic that rounds as asked, decided by exact fractions.

    rounded("add", "rd", [np.float32([1]), np.float32([2.0**-30])])      the float below or at the exact sum

The nearest result is moved one step where it lies on the wrong side of the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}
NEAREST: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}
MODES = ("rn", "rz", "rd", "ru")
OPERATIONS = (*NEAREST, "fma")


def rounded(operation: str, mode: str, arrays: Sequence[Any], nearest: Any) -> Any:
    """The results of `operation` rounded by `mode`.

    Args:
        operation: one of OPERATIONS.
        mode: `rn` to nearest, `rz` towards zero, `rd` down, `ru` up.
        arrays: the operands, of one float type.
        nearest: the results rounded to nearest.
    """
    if mode == "rn":
        return nearest
    flat = [np.broadcast_to(a, np.shape(nearest)).ravel() for a in arrays]
    moved = [_moved(operation, mode, values, value) for *values, value in zip(*flat, np.ravel(nearest), strict=True)]
    return np.array(moved, nearest.dtype).reshape(np.shape(nearest))[()]


def _moved(operation: str, mode: str, operands: Sequence[Any], nearest: Any) -> Any:
    numbers = [float(value) for value in operands]
    if not all(map(math.isfinite, numbers)) or math.isnan(nearest) or (operation == "div" and numbers[1] == 0):
        return nearest
    side = _side(operation, list(map(Fraction, numbers)), float(nearest))
    if side == 0:
        return _exact_zero(operation, mode, numbers, nearest) if nearest == 0 else nearest
    down, up = nearest.dtype.type(-np.inf), nearest.dtype.type(np.inf)
    if mode == "rz":
        towards = down if not np.signbit(nearest) else up
        wrong = side > 0 if not np.signbit(nearest) else side < 0
    else:
        towards, wrong = (down, side > 0) if mode == "rd" else (up, side < 0)
    return np.nextafter(nearest, towards) if wrong else nearest


def _side(operation: str, operands: list[Fraction], nearest: float) -> int:
    """1 where `nearest` is above the exact result, -1 where it is below, else 0."""
    if math.isinf(nearest):
        return 1 if nearest > 0 else -1
    found = Fraction(nearest)
    if operation == "sqrt":
        found, exact = found * found, operands[0]
    else:
        exact = EXACT[operation](*operands)
    return (found > exact) - (found < exact)


def _exact_zero(operation: str, mode: str, numbers: Sequence[float], nearest: Any) -> Any:
    """Terms that cancel give -0 where results are rounded down."""
    if mode != "rd" or operation not in ("add", "sub", "fma"):
        return nearest
    *factors, last = numbers
    first_is_negative = math.prod(math.copysign(1.0, factor) for factor in factors) < 0
    last_is_negative = (math.copysign(1.0, last) < 0) != (operation == "sub")
    return nearest if not first_is_negative and not last_is_negative else -abs(nearest)
