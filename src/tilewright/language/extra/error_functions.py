"""The error function's complement and inverses, and the normal distribution, for libdevice. All compute in fp64.

    erfc(x) = exp(-x²) · erfcx(x)                 for x > 0.45, with what x² loses
    normcdf(x) = ½ · exp(-x²/2) · erfcx(-x/√2)    for x < -0.6
    erfinv(x) = x · P(w),  w = -ln(1 - x²)        erfcinv(y) = (1 - y) · P(w),  w = -ln(y · (2 - y))

Largest errors of fp64 in ulp: erfc 5, erfcx 4, normcdf 5, erfinv 5, erfcinv 6, normcdfinv 7, which are CUDA's own. fp32
is rounded from fp64. The first functions here evaluate the tables of `special_tables.py`, also for `gamma.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.language.extra import special_tables as tables
from tilewright.language.extra.forms import FLOATS_1, named
from tilewright.language.math import abs, erf, exp, fma, log, sqrt
from tilewright.language.operations import cast, maximum, minimum, where
from tilewright.semantics.types import float64

INFINITY, NAN = float("inf"), float("nan")


def polynomial(terms: Sequence[float], u: Any) -> Any:
    """The polynomial's value at u by Horner's rule; `terms` has the highest power first."""
    result: Any = terms[0]
    for term in terms[1:]:
        result = fma(result, u, term)
    return result


def centered(terms: Sequence[float], x: Any, low: float, high: float) -> Any:
    """A polynomial of where x lies in [low, high], from -1 to 1."""
    return polynomial(terms, (x - (low + high) / 2.0) * (2.0 / (high - low)))


def in_double(function: Callable[[Any], Any], name: str = "") -> Any:
    """A function of fp64 made one of fp32, too, whose result is rounded; NaN gives NaN."""

    def convert(arg0: Any) -> Any:
        x = cast(arg0, float64)
        return cast(where(x == x, function(x), NAN), arg0.type.scalar)

    return named(name or function.__name__, convert, FLOATS_1, function.__doc__ or "")


ROOT_HALF, ROOT_2 = 0.7071067811865476, 1.4142135623730951
RECIPROCAL_ROOT_PI = 0.5641895835477563
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


@in_double
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


@in_double
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
