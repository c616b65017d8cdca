"""Functions of libdevice on parts of floats (sign, exponent, neighbours, whole numbers near it), and lengths.

All but lengths are exact. ilogb gives the smallest int32 for 0 and NaN and the largest for infinity, as CUDA's does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tilewright.language.extra.bits import bitcast, less, plus, unsigned, width
from tilewright.language.extra.forms import FLOATS_1, FLOATS_2, FLOATS_3, takes
from tilewright.language.math import abs, fma, sqrt
from tilewright.language.operations import cast, maximum, minimum, where
from tilewright.semantics.math import extern
from tilewright.semantics.types import float32, float64, int32, int64

INFINITY = float("inf")
FRACTION = {32: 23, 64: 52}
"""The number of bits of the fraction, by that of the number."""
BIAS = {32: 127, 64: 1023}
LARGEST = {32: float.fromhex("0x1.fffffep127"), 64: float.fromhex("0x1.fffffffffffffp1023")}
TO_INTEGERS = ("fp32 -> int64", "fp64 -> int64")


@takes("fp32 -> int1", "fp64 -> int1")
def isnan(arg0: Any) -> Any:
    """Whether the value is NaN."""
    return arg0 != arg0


@takes("fp32 -> int1", "fp64 -> int1")
def isinf(arg0: Any) -> Any:
    """Whether the value is infinite."""
    return abs(arg0) == INFINITY


@takes("fp32 -> int1")
def finitef(arg0: Any) -> Any:
    """Whether the value is finite."""
    return abs(arg0) < INFINITY


@takes("fp64 -> int1")
def isfinited(arg0: Any) -> Any:
    """Whether the value is finite."""
    return abs(arg0) < INFINITY


@takes("fp32 -> int32", "fp64 -> int32")
def signbit(arg0: Any) -> Any:
    """1 where the sign bit is set, else 0."""
    return cast(unsigned(arg0) >> (width(arg0) - 1), int32)


@takes(*FLOATS_2)
def copysign(arg0: Any, arg1: Any) -> Any:
    """The magnitude of the first with the sign of the second."""
    shift = width(arg0) - 1
    magnitude, sign = unsigned(arg0), unsigned(arg1)
    rest = magnitude ^ ((magnitude >> shift) << shift)
    return bitcast(rest | ((sign >> shift) << shift), arg0.type.scalar)


@takes(*FLOATS_2)
def nextafter(arg0: Any, arg1: Any) -> Any:
    """The next number after the first in the direction of the second."""
    bits = unsigned(arg0)
    outwards = (arg0 < arg1) == (arg0 > 0.0)
    stepped = where(outwards, plus(bits, 1), less(bits, 1))
    sign = (unsigned(arg1) >> (width(arg0) - 1)) << (width(arg0) - 1)
    stepped = where(arg0 == 0.0, sign | 1, stepped)
    moved = where(arg0 == arg1, arg1, bitcast(stepped, arg0.type.scalar))
    return where((arg0 != arg0) | (arg1 != arg1), arg0 + arg1, moved)


def exponent(x: Any) -> Any:
    """The exponent of the highest bit of finite numbers but 0, as int32."""
    bits, fraction = width(x), FRACTION[width(x)]
    subnormal = abs(x) < 2.0 ** (1 - BIAS[bits])
    scaled = unsigned(where(subnormal, x * 2.0**fraction, x))
    found = less(cast((scaled << 1) >> (fraction + 1), int32), BIAS[bits])
    return where(subnormal, less(found, fraction), found)


@takes("fp32 -> int32", "fp64 -> int32")
def ilogb(arg0: Any) -> Any:
    """The exponent as an integer."""
    found = where(abs(arg0) < INFINITY, exponent(arg0), 2**31 - 1)
    return where((arg0 == 0.0) | (arg0 != arg0), -(2**31), found)


@takes(*FLOATS_1)
def logb(arg0: Any) -> Any:
    """The exponent as a float: -infinity for 0, infinity for infinity."""
    found = cast(exponent(arg0), arg0.type.scalar)
    return where(arg0 == 0.0, -INFINITY, where(abs(arg0) < INFINITY, found, abs(arg0)))


def power_of_two(n: Any) -> Any:
    """2 to the power of n as fp64, -1022 ≤ n ≤ 1023."""
    return bitcast(plus(cast(n, int64), 1023) << 52, float64)


@takes("fp32, int32 -> fp32", "fp64, int32 -> fp64")
def ldexp(arg0: Any, arg1: Any) -> Any:
    """x times 2 to the power of n, rounded once."""
    x, n = cast(arg0, float64), maximum(minimum(arg1, 3000), -3000)
    for _ in range(2):
        # Downwards 53 bits are left over for the last step: where an earlier one rounds, the result is 0.
        part = where(n > 1023, 1023, where(n < -1022, -969, 0))
        x, n = x * power_of_two(part), less(n, part)
    return cast(x * power_of_two(maximum(minimum(n, 1023), -1022)), arg0.type.scalar)


@takes("fp32, int32 -> fp32", "fp64, int32 -> fp64")
def scalbn(arg0: Any, arg1: Any) -> Any:
    """x times 2 to the power of n, rounded once."""
    return ldexp(arg0, arg1)


@takes(*TO_INTEGERS)
def llrint(arg0: Any) -> Any:
    """The nearest integer, halves to the even one; saturated, 0 for NaN."""
    return cast(extern("__tw_rint", (arg0,)), int64)


@takes(*TO_INTEGERS)
def llround(arg0: Any) -> Any:
    """The nearest integer, halves away from zero; saturated, 0 for NaN."""
    return cast(extern("__tw_round", (arg0,)), int64)


@takes(*FLOATS_2)
def remainder(arg0: Any, arg1: Any) -> Any:
    """x less the nearest multiple of y, of two nearest ones the even multiple; exact."""
    y = abs(arg1)
    halvable = y <= LARGEST[width(y)] / 2
    rest = abs(extern("__tw_fmod", (arg0, where(halvable, y + y, y))))
    beyond_half = where(y < 2.0 ** (3 - BIAS[width(y)]), rest + rest > y, rest > 0.5 * y)
    once = where(beyond_half, rest - y, rest)
    still = where(y < 2.0 ** (3 - BIAS[width(y)]), once + once >= y, once >= 0.5 * y)
    found = where(beyond_half & still, once - y, once)
    negative = unsigned(arg0) >> (width(arg0) - 1) != 0
    found = where(negative, -found, found)
    wrong = (arg0 != arg0) | (arg1 != arg1) | (abs(arg0) == INFINITY) | (arg1 == 0.0)
    return where(wrong, float("nan"), where(y == INFINITY, arg0, found))


@takes(*FLOATS_2)
def fdim(arg0: Any, arg1: Any) -> Any:
    """x - y where that is positive, else 0."""
    return where(arg0 <= arg1, 0.0, arg0 - arg1)


@takes("fp32 -> fp32")
def saturatef(arg0: Any) -> Any:
    """The value kept between 0 and 1; 0 for NaN."""
    return where(arg0 > 0.0, minimum(arg0, 1.0), 0.0)


@takes("fp64 -> fp64")
def rcp64h(arg0: Any) -> Any:
    """1 / x from the upper half of x's bits, and only the upper half of its bits; subnormal numbers count as 0."""
    tiny = 2.0**-1022
    x = _upper_half(arg0)
    found = _upper_half(1.0 / where(abs(x) < tiny, _signed_zero(x), x))
    return where(abs(found) < tiny, _signed_zero(found), found)


def _signed_zero(x: Any) -> Any:
    return bitcast((unsigned(x) >> 63) << 63, float64)


def _upper_half(x: Any) -> Any:
    return bitcast((unsigned(x) >> 32) << 32, float64)


# --- lengths of vectors: fp32 is computed in fp64, where no square is too large; fp64 on numbers that are divided by a
# power of two before. Largest error in ulp: 1 (fp32), 1.5 and of the reciprocals 2 (fp64).

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
