"""The gamma function and its logarithm, sine and cosine of multiples of π, for libdevice. All compute in fp64.

Up to 8 arguments are brought near 1 and 2 by factors, from there on Stirling's series; negative ones are reflected.
Largest errors of fp64 in ulp: sinpi and cospi 2, tgamma 10, lgamma 4. These are CUDA's own, which says nothing of
lgamma from -11 to -2.2: there it has zeros, and the error is at most 4.5e-16 in size where 4 ulp are less. fp32 is
rounded from fp64.
"""

from __future__ import annotations

from math import pi
from typing import Any

from tilewright.language.extra import special_tables as tables
from tilewright.language.extra.error_functions import NAN, centered, in_double, polynomial
from tilewright.language.math import abs, exp, floor, fma, log
from tilewright.language.operations import maximum, minimum, where
from tilewright.semantics.math import extern

INFINITY = float("inf")
PI_LOW = 1.2246467991473532e-16
"""π less the nearest fp64."""
LARGE = 8.0
LEFT = -11.5
"""Lower bound of the zeros of lgamma that anyone meets: left of it, they are too close to its poles."""
WHOLE = 2.0**52
"""The number from which on every fp64 number is whole."""
HALF_LOG_2_PI = 0.9189385332046728


def _turns(x: Any) -> tuple[Any, Any, Any]:
    """sin(πr), cos(πr) for the distance r of x from the nearest half, and the number of that half, from 0 to 3."""
    x = where(abs(x) < 2.0 * WHOLE, x, where(abs(x) < INFINITY, 0.0, NAN))
    halves: Any = extern("__tw_rint", (x + x,))
    r = fma(-0.5, halves, x)
    square = r * r
    sine = fma(r, fma(square, polynomial(tables.SINPI, square), PI_LOW), r * pi)
    cosine = fma(square, polynomial(tables.COSPI, square), 1.0)
    return sine, cosine, halves - 4.0 * floor(halves * 0.25)


def _sine(x: Any) -> Any:
    sine, cosine, half = _turns(x)
    size = where((half == 1.0) | (half == 3.0), cosine, sine)
    found = where(half >= 2.0, -size, size)
    return where(found == 0.0, 0.0 * where(abs(x) < INFINITY, x, 0.0), found)


@in_double
def sinpi(x: Any) -> Any:
    """sin(πx); at whole numbers 0 with the sign of x."""
    return _sine(x)


@in_double
def cospi(x: Any) -> Any:
    """cos(πx)."""
    sine, cosine, half = _turns(x)
    size = where((half == 1.0) | (half == 3.0), sine, cosine)
    return where(size == 0.0, 0.0, where((half == 1.0) | (half == 2.0), -size, size))


def _factors(x: Any, last: float) -> tuple[Any, Any]:
    """x less whole numbers until it lies below `last`, and the product of the steps; `last` ≤ x < 8."""
    product, rest = 0.0 * x + 1.0, x
    for _ in range(int(LARGE - last) + 1):
        goes_on = rest >= last
        rest = where(goes_on, rest - 1.0, rest)
        product = where(goes_on, product * rest, product)
    return rest, product


def _gamma_parts(x: Any) -> tuple[Any, Any]:
    """Two numbers whose product is gamma(x), x ≥ ½; the second one may overflow only if it does."""
    small = minimum(maximum(x, 1.0), LARGE)
    rest, product = _factors(small, 2.0)
    near = product * centered(tables.GAMMA, rest, 1.0, 2.0)
    near = where(x < 1.0, centered(tables.GAMMA, x + 1.0, 1.0, 2.0) / x, near)
    large = minimum(maximum(x, LARGE), 200.0)
    half_power = extern("__tw_pow", (large, 0.5 * large - 0.25))
    series = centered(tables.GAMMA_LARGE, LARGE / large, 0.0, 1.0)
    is_large = x >= LARGE
    return where(is_large, half_power * exp(-large), near), where(is_large, half_power * series, 1.0)


@in_double
def tgamma(x: Any) -> Any:
    """The gamma function."""
    first, second = _gamma_parts(maximum(abs(x), 0.5))
    positive = first * second
    near = _around_zero(x) / x
    reflected = -pi / (x * _sine(x)) / first / second
    found = where(x < 0.5, where(x > -0.5, near, reflected), positive)
    found = where((x < -190.0) & (floor(x) != x), 0.0, found)
    found = where((x < 0.0) & (floor(x) == x), NAN, found)
    return where(x == INFINITY, INFINITY, found)


def _around_zero(x: Any) -> Any:
    """gamma(1 + x) for -½ < x < ½."""
    inside = minimum(maximum(x, -0.5), 0.5)
    above = centered(tables.GAMMA, where(inside < 0.0, inside + 2.0, inside + 1.0), 1.0, 2.0)
    return where(inside < 0.0, above / (inside + 1.0), above)


def _logarithm(x: Any) -> Any:
    """lgamma of x > 0."""
    around_one = where(x < 0.5, x, x - 1.0)
    around_one = minimum(maximum(around_one, -0.5), 0.5)
    near_one = around_one * centered(tables.LGAMMA_1, around_one, -0.5, 0.5)
    near_one = where(x < 0.5, near_one - log(x), near_one)
    rest, product = _factors(minimum(maximum(x, 1.5), LARGE), 2.5)
    near_two = (rest - 2.0) * centered(tables.LGAMMA_2, rest - 2.0, -0.5, 0.5) + log(product)
    large = maximum(x, LARGE)
    correction = centered(tables.LGAMMA_LARGE, (LARGE / large) * (LARGE / large), 0.0, 1.0) / large
    stirling = fma(large - 0.5, log(large) - 1.0, (HALF_LOG_2_PI - 0.5) + correction)
    return where(x < 1.5, near_one, where(x < LARGE, near_two, stirling))


def _between_zeros(x: Any) -> Any:
    """lgamma of LEFT ≤ x < 0: gamma between 1 and 2 over the factors to there, which have twice the precision."""
    high, low, rest = 0.0 * x + 1.0, 0.0 * x, x
    for _ in range(int(1.0 - LEFT) + 1):
        goes_on = rest < 1.0
        factor = where(goes_on, rest, 1.0)
        product = high * factor
        high, low = product, fma(low, factor, fma(high, factor, -product))
        rest = where(goes_on, rest + 1.0, rest)
    ratio = centered(tables.GAMMA, rest, 1.0, 2.0) / high
    return log(abs(fma(-ratio, low / high, ratio)))


@in_double
def lgamma(x: Any) -> Any:
    """The logarithm of the size of the gamma function."""
    size = abs(x)
    positive = _logarithm(maximum(size, 5e-324))
    reflected = log(pi / abs(size * _sine(size))) - positive
    reflected = where((x > LEFT) & (x < -2.0), _between_zeros(minimum(maximum(x, LEFT), -2.0)), reflected)
    found = where(x < 0.0, where(size < 1e-19, positive, reflected), positive)
    whole = (x <= 0.0) & (floor(x) == x)
    return where(whole | (size == INFINITY), INFINITY, found)
