"""Prints `language/extra/bessel_tables.py`: Chebyshev series of Bessel functions, from mpmath.

python tests/language/bessel_fits.py > src/tilewright/language/extra/bessel_tables.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mpmath import besseli, besselj, bessely, cos, exp, log, mp, mpf, pi, sin, sqrt

mp.dps = 45
TINY = mpf("2e-18")
SMALL = mpf(10) ** -12
HEAD = '''"""Chebyshev series of Bessel functions, lowest term first. Printed by tests/language/bessel_fits.py.

Each is over the range of its argument, mapped to [-1, 1]; what is left out is below 2e-18 of the largest value.
"""
'''


def fit(f: Callable[[Any], Any], low: Any, high: Any, nodes: int = 64) -> list[float]:
    """The series of `f` on [low, high]."""
    middle, half = (mpf(high) + mpf(low)) / 2, (mpf(high) - mpf(low)) / 2
    angles = [pi * (k + mpf(1) / 2) / nodes for k in range(nodes)]
    values = [f(half * cos(angle) + middle) for angle in angles]
    terms = [2 * sum(v * cos(j * a) for v, a in zip(values, angles, strict=True)) / nodes for j in range(nodes)]
    terms[0] /= 2
    scale = max(map(abs, values))
    while abs(terms[-1]) < TINY * scale:
        terms.pop()
    return list(map(float, terms))


def by_square(f: Callable[[Any], Any]) -> list[float]:
    """The coefficients of a function of x in powers of x², 0 ≤ x ≤ 8."""
    return fit(lambda u: f(sqrt(max(u, SMALL))), 0, 64)


def hankel(order: int, *, sine: bool) -> list[float]:
    """The factors of cosine and sine in the expansion for large arguments, by (8/x)²."""

    def factor(z: Any) -> Any:
        x = 8 / sqrt(max(z, mpf(10) ** -14))
        angle, size = x - (2 * order + 1) * pi / 4, sqrt(pi * x / 2)
        j, y = besselj(order, x), bessely(order, x)
        if sine:
            return size * (y * cos(angle) - j * sin(angle)) * x / 8
        return size * (j * cos(angle) + y * sin(angle))

    return fit(factor, 0, 1, 48)


def modified(order: int) -> list[float]:
    """i(x)·exp(-x)·√x by 1/x, x ≥ 8."""

    def value(w: Any) -> Any:
        if w > mpf(10) ** -4:
            return exp(-1 / w) * besseli(order, 1 / w) / sqrt(w)
        term = total = mpf(1)
        for k in range(1, 20):
            term *= -(4 * order * order - (2 * k - 1) ** 2) * w / (8 * k)
            total += term
        return total / sqrt(2 * pi)

    return fit(value, 0, mpf(1) / 8)


TABLES = {
    "J0": ("j0(x) by x², 0 ≤ x ≤ 8", lambda: fit(lambda u: besselj(0, sqrt(u)), 0, 64)),
    "J1": ("j1(x) / x by x², 0 ≤ x ≤ 8", lambda: by_square(lambda x: besselj(1, x) / x)),
    "Y0": (
        "y0(x) - 2/π·ln(x)·j0(x) by x², 0 ≤ x ≤ 8",
        lambda: by_square(lambda x: bessely(0, x) - 2 / pi * log(x) * besselj(0, x)),
    ),
    "Y1": (
        "(y1(x) - 2/π·(ln(x)·j1(x) - 1/x)) / x by x², 0 ≤ x ≤ 8",
        lambda: by_square(lambda x: (bessely(1, x) - 2 / pi * (log(x) * besselj(1, x) - 1 / x)) / x),
    ),
    "P0": ("what stands before the cosine in j0 by (8/x)², x ≥ 8", lambda: hankel(0, sine=False)),
    "Q0": ("what stands before the sine in j0, times x/8, by (8/x)², x ≥ 8", lambda: hankel(0, sine=True)),
    "P1": ("the same for j1", lambda: hankel(1, sine=False)),
    "Q1": ("the same for j1", lambda: hankel(1, sine=True)),
    "I0": ("i0(x)·exp(-x), 0 ≤ x ≤ 8", lambda: fit(lambda x: exp(-x) * besseli(0, x), 0, 8)),
    "I1": ("i1(x)·exp(-x) / x, 0 ≤ x ≤ 8", lambda: fit(lambda x: exp(-x) * besseli(1, x) / x, 0, 8)),
    "I0_LARGE": ("i0(x)·exp(-x)·√x by 1/x, x ≥ 8", lambda: modified(0)),
    "I1_LARGE": ("i1(x)·exp(-x)·√x by 1/x, x ≥ 8", lambda: modified(1)),
}


if __name__ == "__main__":
    sys.stdout.write(HEAD + "\n")
    for name, (comment, series) in TABLES.items():
        terms = "".join(f"    {term!r},\n" for term in series())
        sys.stdout.write(f"# {comment}\n{name} = (\n{terms})\n")
