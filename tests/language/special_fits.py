"""Prints `language/extra/special_tables.py`: polynomials of the error and gamma functions, from mpmath.

python tests/language/special_fits.py > src/tilewright/language/extra/special_tables.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from mpmath import chebyfit, erf, erfc, exp, gamma, hyp1f1, log, loggamma, mp, mpf, pi, sin, sqrt

from tilewright.language.extra.special_functions import MIDDLE, SCALED_MIDDLE

mp.dps = 60
HEAD = '"""Polynomials of the error and gamma functions, highest power first, from tests/language/special_fits.py."""\n'
DEGREES = range(5, 40)
TINY = mpf(10) ** -24
EXACT = mpf(10) ** -17
SINGLE = mpf(2) ** -28
"""The error for what is computed in fp32."""


def fit(f: Callable[[Any], Any], low: float, high: float, degrees: range, exact: Any = EXACT) -> list[float]:
    """The polynomial of u, -1 ≤ u ≤ 1, for `f` on [low, high]; of the least degree that is exact enough."""
    middle, half = (mpf(high) + mpf(low)) / 2, (mpf(high) - mpf(low)) / 2
    return least(lambda u: f(middle + half * u), -1, 1, degrees, exact)


def fit_single(f: Callable[[Any], Any], low: float, high: float, degrees: range) -> list[float]:
    """The same for fp32."""
    return fit(f, low, high, degrees, SINGLE)


def least(f: Callable[[Any], Any], low: float, high: float, degrees: range, exact: Any = EXACT) -> list[float]:
    """The polynomial for `f` on [low, high], in powers of its argument itself."""
    known = cache(f)
    size = max(abs(known(mpf(low) + (mpf(high) - mpf(low)) * k / 16)) for k in range(17))
    for degree in degrees:
        terms, error = chebyfit(known, [low, high], degree + 1, error=True)
        if error < exact * size:
            return list(map(float, terms))
    raise ArithmeticError(f"no polynomial of a degree in {degrees}: {error}")


def least_single(f: Callable[[Any], Any], low: float, high: float, degrees: range) -> list[float]:
    """The same for fp32."""
    return least(f, low, high, degrees, SINGLE)


def scaled_erfc(q: Any) -> Any:
    """(1 + 2x)·exp(x²)·erfc(x) by q = (x - 4) / (x + 4)."""
    if q > 1 - mpf(10) ** -12:
        return 2 / sqrt(pi)
    x = 4 * (1 + q) / (1 - q)
    if x < 60:
        return (1 + 2 * x) * exp(x * x) * erfc(x)
    term = total = mpf(1)
    for k in range(1, 40):
        term *= -(2 * k - 1) / (2 * x * x)
        total += term
    return (1 + 2 * x) / x / sqrt(pi) * total


def more_than_middle(t: Any) -> Any:
    """((1 + 2x)·exp(x²)·erfc(x) - SCALED_MIDDLE) / t by t = x / (x + 2) - MIDDLE."""
    x = 2 * (MIDDLE + t) / (1 - MIDDLE - t)
    return ((1 + 2 * x) * exp(x * x) * erfc(x) - SCALED_MIDDLE) / t


def inverse_over(w: Any) -> Any:
    """erfinv(x) / x by w = -ln(1 - x²)."""
    if w < TINY:
        return sqrt(pi) / 2
    small = exp(-w) / (1 + sqrt(1 - exp(-w)))  # 1 - x
    z = sqrt(w) if w > 1 else sqrt(pi * w) / 2
    for _ in range(60):
        if w > 1:
            step = (log(erfc(z)) - log(small)) * erfc(z) * sqrt(pi) / 2 * exp(z * z)
        else:
            step = (1 - small - erf(z)) * sqrt(pi) / 2 * exp(z * z)
        z += step
        if abs(step) < mpf(10) ** -40:
            break
    return z / (1 - small)


def more_than_first(w: Any) -> Any:
    """`inverse_over` less its value at 0, over w."""
    return (inverse_over(w) - sqrt(pi) / 2) / w if w > mpf(10) ** -12 else pi ** mpf("1.5") / 24


def stirling(x: Any) -> Any:
    """lgamma(x) - (x - ½)·ln(x) + x - ½·ln(2π)."""
    return loggamma(x) - (x - mpf(1) / 2) * log(x) + x - log(2 * pi) / 2


def near_zero(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`f`, which divides by its argument, but not by 0."""
    return lambda t: f(t if abs(t) > TINY else TINY)


def corrections(z: Any) -> Any:
    """`stirling(x)`·x by z = 1/x², from its asymptotic series where that is exact."""
    if z > mpf("0.0001"):
        x = 1 / sqrt(z)
        return stirling(x) * x
    return sum(mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) * z ** (k - 1) for k in range(1, 12))


def series(t: Any) -> Any:
    """√(2π)·exp of the asymptotic series by t = 1/x."""
    return sqrt(2 * pi) * exp(corrections(t * t) * t)


TABLES = {
    "ERFCX": ("(1 + 2x)·erfcx(x) by (x - 4) / (x + 4), x ≥ 0", fit, scaled_erfc, -1, 1),
    "ERFC_SINGLE": (
        "what (1 + 2x)·erfcx(x) has more than at MIDDLE, over what q = x / (x + 2) has, 0 ≤ x ≤ 10.2, for fp32",
        least_single,
        near_zero(more_than_middle),
        -MIDDLE,
        10.2 / 12.2 - MIDDLE,
    ),
    "EXP_SINGLE": (
        "(exp(x) - 1 - x) / x², |x| ≤ ½ ln(2), for fp32",
        least_single,
        lambda x: hyp1f1(1, 3, x) / 2,
        -0.3466,
        0.3466,
    ),
    "ERFINV": ("erfinv(x) / x by w = -ln(1 - x²), 0 ≤ w ≤ 6.25", fit, inverse_over, 0, 6.25),
    "ERFINV_SINGLE": ("what it has more than √π/2, over w, for fp32", fit_single, near_zero(more_than_first), 0, 6.25),
    "ERFINV_FAR": ("the same by √w, 2.5 ≤ √w ≤ 5", fit, lambda s: inverse_over(s * s), 2.5, 5),
    "ERFINV_FAR_SINGLE": (
        "the same by √w, 2.5 ≤ √w ≤ 4.25, for fp32",
        fit_single,
        lambda s: inverse_over(s * s),
        2.5,
        4.25,
    ),
    "ERFINV_FARTHER": ("the same by √w, 5 ≤ √w ≤ 11", fit, lambda s: inverse_over(s * s), 5, 11),
    "ERFINV_TAIL": ("the same by √w, 11 ≤ √w ≤ 28", fit, lambda s: inverse_over(s * s), 11, 28),
    "GAMMA": ("gamma(x), 1 ≤ x ≤ 2", fit, gamma, 1, 2),
    "GAMMA_LARGE": ("gamma(x)·exp(x)·x^(½ - x) by 8/x, x ≥ 8", fit, lambda t: series(t / 8), 0, 1),
    "LGAMMA_1": ("lgamma(1 + t) / t, |t| ≤ ½", fit, near_zero(lambda t: loggamma(1 + t) / t), -0.5, 0.5),
    "LGAMMA_2": ("lgamma(2 + t) / t, |t| ≤ ½", fit, near_zero(lambda t: loggamma(2 + t) / t), -0.5, 0.5),
    "LGAMMA_LARGE": (
        "(lgamma(x) - (x - ½)·ln(x) + x - ½·ln(2π))·x by 64/x², x ≥ 8",
        fit,
        lambda z: corrections(z / 64),
        0,
        1,
    ),
    "SINPI": (
        "(sin(πx)/x - π) / x² by x² itself, |x| ≤ ¼",
        least,
        lambda u: (sin(pi * sqrt(u + TINY)) / sqrt(u + TINY) - pi) / (u + TINY),
        0,
        0.0625,
    ),
    "COSPI": (
        "(cos(πx) - 1) / x² by x² itself, |x| ≤ ¼",
        least,
        lambda u: -2 * (sin(pi * sqrt(u + TINY) / 2)) ** 2 / (u + TINY),
        0,
        0.0625,
    ),
}


if __name__ == "__main__":
    sys.stdout.write(HEAD + "\n")
    for name, (comment, way, function, low, high) in TABLES.items():
        terms = "".join(f"    {term!r},\n" for term in way(function, low, high, DEGREES))
        sys.stdout.write(f"# {comment}\n{name} = (\n{terms})\n")
