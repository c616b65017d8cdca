"""Lengths of vectors, for libdevice: square roots of sums of squares, and their reciprocals, without overflow between.

fp32 is computed in fp64, where no square is too large; fp64 on numbers that are divided by a power of two before.
Largest error in ulp: 1 (fp32), 1.5 and of the reciprocals 2 (fp64).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tilewright.language.extra.bits import less
from tilewright.language.extra.float_parts import exponent, power_of_two
from tilewright.language.extra.forms import FLOATS_1, FLOATS_2, FLOATS_3, takes
from tilewright.language.math import abs, fma, sqrt
from tilewright.language.operations import cast, maximum, minimum, where
from tilewright.semantics.math import extern
from tilewright.semantics.types import float32, float64

INFINITY = float("inf")
FLOATS_4 = tuple(f"{kind}, {kind}, {kind}, {kind} -> {kind}" for kind in ("fp32", "fp64"))


def _length(parts: Sequence[Any], *, reciprocal: bool = False) -> Any:
    kind = parts[0].type.scalar
    if kind is float32:
        parts = [cast(part, float64) for part in parts]
        length = sqrt(_sum_of_squares(parts))
        found = cast(1.0 / length if reciprocal else length, float32)
    else:
        found = _scaled_length(parts, reciprocal=reciprocal)
    infinite = reduce(lambda a, b: a | b, [abs(part) == INFINITY for part in parts])
    return where(infinite, 0.0 if reciprocal else INFINITY, found)


def _scaled_length(parts: Sequence[Any], *, reciprocal: bool) -> Any:
    largest = reduce(maximum, [abs(part) for part in parts])
    power = maximum(minimum(exponent(maximum(largest, 2.0**-1074)), 1000), -1000)
    down = power_of_two(less(0, power))
    scaled = [part * down for part in parts]
    length = sqrt(_sum_of_squares(scaled))
    return (1.0 / length) * down if reciprocal else length * power_of_two(power)


def _sum_of_squares(parts: Sequence[Any]) -> Any:
    """The sum, and what rounding took from the largest square and from each addition."""
    total, lost = parts[0] * parts[0], fma(parts[0], parts[0], -(parts[0] * parts[0]))
    for part in parts[1:]:
        square = part * part
        lost = lost + fma(part, part, -square)
        larger, smaller = maximum(total, square), minimum(total, square)
        new = larger + smaller
        lost, total = lost + (smaller - (new - larger)), new
    return total + lost


@takes(*FLOATS_2)
def hypot(arg0: Any, arg1: Any) -> Any:
    """√(x² + y²)."""
    return _length([arg0, arg1])


@takes(*FLOATS_2)
def rhypot(arg0: Any, arg1: Any) -> Any:
    """1 / √(x² + y²)."""
    return _length([arg0, arg1], reciprocal=True)


@takes(*FLOATS_3)
def norm3d(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """The length of a vector of three."""
    return _length([arg0, arg1, arg2])


@takes(*FLOATS_3)
def rnorm3d(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """1 by the length of a vector of three."""
    return _length([arg0, arg1, arg2], reciprocal=True)


@takes(*FLOATS_4)
def norm4d(arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> Any:
    """The length of a vector of four."""
    return _length([arg0, arg1, arg2, arg3])


@takes(*FLOATS_4)
def rnorm4d(arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> Any:
    """1 by the length of a vector of four."""
    return _length([arg0, arg1, arg2, arg3], reciprocal=True)


@takes(*FLOATS_1)
def rcbrt(arg0: Any) -> Any:
    """1 / ∛x."""
    x = cast(arg0, float64)
    root: Any = extern("__tw_cbrt", (x,))
    first = 1.0 / root
    missing = fma(-(x * first), first * first, 1.0)
    found = fma(first, missing * (1.0 / 3.0), first)
    return cast(where((abs(x) < INFINITY) & (x != 0.0), found, first), arg0.type.scalar)
