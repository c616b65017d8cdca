"""The error function's complement and inverses, the normal distribution, the gamma function, sin(πx) and cos(πx).

They are libdevice's, and compute in fp64; fp32 results are rounded from that. erfinv of fp32 computes in fp32, since P
changes little with w: 2.2 ulp. So does erfc, 1.4 ulp: some of its factors are pairs of floats, whose second part is the
rounding error of the first. The first functions here evaluate the tables of `special_tables.py`.

    erfc(x) = exp(-x²) · erfcx(x)                 for x > 0.45, with what x² loses
    normcdf(x) = ½ · exp(-x²/2) · erfcx(-x/√2)    for x < -0.6
    erfinv(x) = x · P(w),  w = -ln(1 - x²)        erfcinv(y) = (1 - y) · P(w),  w = -ln(y · (2 - y))

Gamma: up to 8 arguments are moved near 1 and 2 by the recurrence, from there on Stirling's series is used; negative
arguments are reflected.

Largest errors of fp64 in ulp: erfc 5, erfcx 4, normcdf 5, erfinv 5, erfcinv 6, normcdfinv 7, sinpi and cospi 2, tgamma
10, lgamma 4. These are CUDA's own bounds, which exclude lgamma from -11 to -2.2: there it has zeros, and the absolute
error is at most 4.5e-16 where 4 ulp are less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import pi
from typing import Any

from tilewright.language.extra import special_tables as tables
from tilewright.language.extra.forms import FLOATS_1, named
from tilewright.language.math import abs, erf, exp, floor, fma, log, sqrt
from tilewright.language.operations import cast, maximum, minimum, where
from tilewright.semantics.math import extern
from tilewright.semantics.types import float32, float64, int32

INFINITY, NAN = float("inf"), float("nan")


def polynomial(terms: Sequence[float], u: Any) -> Any:
    """The polynomial's value at u by Horner's rule; `terms` has the highest power first."""
    result: Any = terms[0]
    for term in terms[1:]:
        result = fma(result, u, term)
    return result


def centered(terms: Sequence[float], x: Any, low: float, high: float) -> Any:
    """A polynomial of the position of x in [low, high], from -1 to 1."""
    return polynomial(terms, (x - (low + high) / 2.0) * (2.0 / (high - low)))


def in_double(function: Callable[[Any], Any], name: str = "", *, single: Callable[[Any], Any] | None = None) -> Any:
    """A function of fp64 made one of fp32, too: by `single`, or rounded; NaN gives NaN."""

    def convert(arg0: Any) -> Any:
        if single is not None and arg0.type.scalar is float32:
            return single(arg0)
        x = cast(arg0, float64)
        return cast(where(x == x, function(x), NAN), arg0.type.scalar)

    return named(name or function.__name__, convert, FLOATS_1, function.__doc__ or "")


ROOT_HALF, ROOT_2 = 0.7071067811865476, 1.4142135623730951
RECIPROCAL_ROOT_PI = 0.5641895835477563
HALF_ROOT_PI = 0.8862269254527580
SMALL = 0.45
HUGE = 2.0**60


def _scaled(x: Any) -> Any:
    """exp(x²)·erfc(x) for x ≥ 0."""
    inside = minimum(x, HUGE)
    q = (inside - 4.0) / (inside + 4.0)
    return where(x > HUGE, RECIPROCAL_ROOT_PI / x, polynomial(tables.ERFCX, q) / fma(2.0, inside, 1.0))


def _falling(x: Any, factor: float) -> Any:
    """exp(-factor·x²) for a factor that is a power of two."""
    x = minimum(x, 40.0)
    square = x * x
    lost = fma(x, x, -square)
    small = exp(-factor * square)
    return fma(-factor * lost, small, small)


MIDDLE, SCALED_MIDDLE = 0.40004080533981323, 1.2874934673309326
"""A q = x / (x + 2) in the range of erfc of fp32, and (1 + 2x)·erfcx(x) there: both are fp32, up to 1e-12.

Powers of what q has more or less add little, while those of q itself cancel each other.
"""
MAX_FALLEN = 10.2
"""The argument from which on erfc of fp32 is 0."""
LOG_2_E, LOG_2_HIGH, LOG_2_LOW = 1.4426950408889634, 0.693359375, -2.1219444005469057e-4
LIFTED = 24
"""The binary exponent by which small numbers are greater until the end, so that none is subnormal before."""


def _falling_in_single(x: Any) -> tuple[Any, Any, Any]:
    """exp(-x²) for fp32, 0 ≤ x ≤ 10.2: a number, what rounding took from it, and 2^LIFTED times their power of two."""
    square = x * x
    halvings: Any = extern("__tw_rint", (square * LOG_2_E,))
    rest = fma(halvings, LOG_2_HIGH, -square) + fma(halvings, LOG_2_LOW, -fma(x, x, -square))
    whole = 1.0 + rest
    whole_rest = fma(rest * rest, polynomial(tables.EXP_SINGLE, rest), rest - (whole - 1.0))
    power = cast((127 + LIFTED - cast(halvings, int32)) << 23, float32, bitcast=True)
    return whole, whole_rest, power


def _erfc_in_single(x: Any) -> Any:
    size = minimum(abs(x), MAX_FALLEN)
    q = size / (size + 2.0) - MIDDLE
    terms = polynomial(tables.ERFC_SINGLE, q)
    scaled, divisor = fma(terms, q, SCALED_MIDDLE), fma(size, 2.0, 1.0)
    inverse = 1.0 / divisor
    ratio = scaled * inverse
    left = fma(-ratio, divisor, scaled) + fma(terms, q, SCALED_MIDDLE - scaled)
    ratio_rest = fma(-ratio, fma(size, 2.0, 1.0 - divisor), left) * inverse
    whole, whole_rest, power = _falling_in_single(size)
    far = fma(whole, ratio, fma(whole, ratio_rest, whole_rest * ratio)) * power * 2.0**-LIFTED
    return where(x == x, where(x < 0.0, 2.0 - far, far), NAN)


@partial(in_double, single=_erfc_in_single)
def erfc(x: Any) -> Any:
    """1 - erf(x), exact also where that is small."""
    size = abs(x)
    far = _falling(size, 1.0) * _scaled(size)
    return where(x < SMALL, 1.0 - erf(x), far)


@in_double
def erfcx(x: Any) -> Any:
    """exp(x²)·erfc(x)."""
    size = minimum(abs(x), 30.0)
    square = size * size
    large = exp(square)
    large = where(large < INFINITY, fma(fma(size, size, -square), large, large), large)
    return where(x < 0.0, 2.0 * large - _scaled(abs(x)), _scaled(abs(x)))


@in_double
def normcdf(x: Any) -> Any:
    """The part of a normal distribution below x."""
    size = abs(x)
    far = 0.5 * (_falling(size, 0.5) * _scaled(size * ROOT_HALF))
    return where(x < -0.6, far, fma(0.5, erf(x * ROOT_HALF), 0.5))


def _inverse(w: Any) -> Any:
    """erfinv(x) / x by w = -ln(1 - x²)."""
    root = sqrt(w)
    near = centered(tables.ERFINV, minimum(w, 6.25), 0.0, 6.25)
    far = centered(tables.ERFINV_FAR, minimum(maximum(root, 2.5), 5.0), 2.5, 5.0)
    farther = centered(tables.ERFINV_FARTHER, minimum(maximum(root, 5.0), 11.0), 5.0, 11.0)
    last = centered(tables.ERFINV_TAIL, minimum(maximum(root, 11.0), 28.0), 11.0, 28.0)
    return where(root < 2.5, near, where(root < 5.0, far, where(root < 11.0, farther, last)))


def _of_complement(y: Any) -> Any:
    """erfinv(1 - y), 0 ≤ y ≤ 2."""
    from_one = y - 1.0
    middle = abs(from_one) < 0.5
    rest = where(middle, fma(-from_one, from_one, 1.0), y * (2.0 - y))
    found = -from_one * _inverse(maximum(-log(rest), 0.0))
    inside = (y > 0.0) & (y < 2.0)
    return where(inside, found, where(y == 0.0, INFINITY, where(y == 2.0, -INFINITY, NAN)))


def _erfinv_in_single(x: Any) -> Any:
    size = abs(x)
    left = 1.0 - size
    w = maximum(-log(fma(-left, left, left + left)), 0.0)
    inside = minimum(w, 6.25)
    near = fma(inside, centered(tables.ERFINV_SINGLE, inside, 0.0, 6.25), HALF_ROOT_PI)
    far = centered(tables.ERFINV_FAR_SINGLE, minimum(maximum(sqrt(w), 2.5), 4.25), 2.5, 4.25)
    return where(size < 1.0, x * where(w < 6.25, near, far), where(size == 1.0, x * INFINITY, NAN))


@partial(in_double, single=_erfinv_in_single)
def erfinv(x: Any) -> Any:
    """The y for which erf(y) is x."""
    found = x * _inverse(maximum(-log(fma(-x, x, 1.0)), 0.0))
    return where(abs(x) < 1.0, found, where(abs(x) == 1.0, x * INFINITY, NAN))


@in_double
def erfcinv(x: Any) -> Any:
    """The y for which erfc(y) is x."""
    return _of_complement(x)


@in_double
def normcdfinv(x: Any) -> Any:
    """The y for which normcdf(y) is x."""
    return -ROOT_2 * _of_complement(2.0 * x)


PI_LOW = 1.2246467991473532e-16
"""π less the nearest fp64."""
LARGE = 8.0
LEFT = -11.5
"""Lower bound of the zeros of lgamma that matter: below it, they are too close to its poles."""
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


def _lgamma_for_single(arg0: Any) -> Any:
    """lgamma of fp32 by fp64, with one logarithm for each side of 0.

    The reflection subtracts where it has zeros, and numbers of fp32 lie far enough from these that fp64 does.
    """
    x = cast(arg0, float64)
    size = maximum(abs(x), 5e-324)
    is_small, is_large, is_tiny = size < 1.5, size >= LARGE, size < 0.5
    rest, product = _factors(minimum(maximum(size, 1.5), LARGE), 2.5)
    logarithm = log(where(is_large | is_tiny, size, where(is_small, 1.0, product)))
    from_root = where(is_small, where(is_tiny, size, size - 1.0), rest - 2.0)
    by_one = centered(tables.LGAMMA_1, minimum(from_root, 0.5), -0.5, 0.5)
    by_two = centered(tables.LGAMMA_2, from_root, -0.5, 0.5)
    near = fma(from_root, where(is_small, by_one, by_two), where(is_tiny, -logarithm, logarithm))
    large = maximum(size, LARGE)
    correction = centered(tables.LGAMMA_LARGE, (LARGE / large) * (LARGE / large), 0.0, 1.0) / large
    stirling = fma(large - 0.5, logarithm - 1.0, (HALF_LOG_2_PI - 0.5) + correction)
    positive = where(is_large, stirling, near)
    reflected = log(pi / abs(size * _sine(size))) - positive
    found = where((x < 0.0) & (size >= 1e-19), reflected, positive)
    whole = (x <= 0.0) & (floor(x) == x)
    found = where(whole | (size == INFINITY), INFINITY, where(x == x, found, NAN))
    return cast(found, float32)


@partial(in_double, single=_lgamma_for_single)
def lgamma(x: Any) -> Any:
    """The logarithm of the size of the gamma function."""
    size = abs(x)
    positive = _logarithm(maximum(size, 5e-324))
    reflected = log(pi / abs(size * _sine(size))) - positive
    reflected = where((x > LEFT) & (x < -2.0), _between_zeros(minimum(maximum(x, LEFT), -2.0)), reflected)
    found = where(x < 0.0, where(size < 1e-19, positive, reflected), positive)
    whole = (x <= 0.0) & (floor(x) == x)
    return where(whole | (size == INFINITY), INFINITY, found)
