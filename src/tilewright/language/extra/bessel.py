"""Bessel functions, for libdevice. All compute in fp64; the result of fp32 is rounded from that.

Up to 8 Chebyshev series in x² (for y beside a logarithm), from there on cosine and sine of x with slowly varying
factors. Largest errors for |x| ≤ 700: i0 4 ulp, i1 12 ulp; j and y of order n (1.5 + n/25)·1e-15 of the larger of
|value| and √(2/πx), at most 1, which near their zeros is small against the size of the function nearby, not against its
value.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from math import isqrt, pi
from typing import Any

from tilewright.language.extra import bessel_orders
from tilewright.language.extra import bessel_tables as tables
from tilewright.language.math import abs, cos, exp, fma, log, sin, sqrt
from tilewright.language.operations import maximum, minimum, where
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.math import WIDE_FLOATS, check_element
from tilewright.semantics.types import float64, int32

INFINITY, NAN = float("inf"), float("nan")
NEAR = 8.0
LARGE = 1e30
"""Value from which on growing recurrences are scaled down."""
SMALL = 1e-100
"""Argument below which orders from 2 on are taken for 0."""


def j0(arg0: Any) -> Any:
    """The Bessel function of the first kind, order 0."""
    return _in_double("j0", arg0, lambda x: _first(0, abs(x)))


def j1(arg0: Any) -> Any:
    """The Bessel function of the first kind, order 1."""
    return jn(1, arg0)


def jn(arg0: Any, arg1: Any) -> Any:
    """The Bessel function of the first kind; the order is a constant or an int32 tile."""
    order = _order("jn", arg0)
    if not isinstance(order, int):
        return _of_orders("jn", order, arg1)

    def value(x: Any) -> Any:
        size = _of_order(builtins.abs(order), abs(x))
        if order % 2 == 0:
            return size
        return where(x < 0.0 if order > 0 else x >= 0.0, -size, size)

    return _in_double("jn", arg1, value)


def y0(arg0: Any) -> Any:
    """The Bessel function of the second kind, order 0; NaN below 0."""
    return yn(0, arg0)


def y1(arg0: Any) -> Any:
    """The Bessel function of the second kind, order 1; NaN below 0."""
    return yn(1, arg0)


def yn(arg0: Any, arg1: Any) -> Any:
    """The Bessel function of the second kind; the order is a constant or an int32 tile. NaN below 0."""
    order = _order("yn", arg0)
    if not isinstance(order, int):
        return _of_orders("yn", order, arg1)
    sign = -1.0 if order < 0 and order % 2 else 1.0

    def value(x: Any) -> Any:
        before, found = _second(0, x), _second(1, x)
        for k in range(1, builtins.abs(order)):
            before, found = found, where(found == -INFINITY, -INFINITY, (2.0 * k / x) * found - before)
        found = before if order == 0 else found
        return where(x > 0.0, where(x == INFINITY, 0.0, sign * found), where(x == 0.0, -sign * INFINITY, NAN))

    return _in_double("yn", arg1, value)


def cyl_bessel_i0(arg0: Any) -> Any:
    """The modified Bessel function of the first kind, order 0."""
    return _in_double("cyl_bessel_i0", arg0, lambda x: _modified(abs(x), tables.I0, tables.I0_LARGE, 1.0))


def cyl_bessel_i1(arg0: Any) -> Any:
    """The modified Bessel function of the first kind, order 1."""

    def value(x: Any) -> Any:
        size = _modified(abs(x), tables.I1, tables.I1_LARGE, minimum(abs(x), NEAR))
        return where(x < 0.0, -size, size)

    return _in_double("cyl_bessel_i1", arg0, value)


def _in_double(name: str, arg0: Any, value: Callable[[Any], Any]) -> Any:
    """`value` of the argument, computed in fp64, in the argument's type."""
    tile = to_tensor(arg0)
    check_element(name, tile, WIDE_FLOATS)
    x = cast(tile, float64)
    return cast(where(x == x, value(x), NAN), tile.type.scalar)


def _order(name: str, order: Any) -> Any:
    """An order that is a constant, or a tile of them."""
    plain = unwrap(order)
    if isinstance(plain, int):
        return plain
    tile = to_tensor(plain)
    check_element(f"the order of {name}", tile, (int32,))
    return tile


def _of_orders(name: str, order: Any, arg1: Any) -> Any:
    """jn or yn with an order for each element."""

    def first(x: Any) -> Any:
        n, size = broadcast(order, abs(x))
        found = bessel_orders.first(bessel_orders.of_size(n), size, _first(0, size), _first(1, size))
        turned = bessel_orders.is_odd(n) & ((x < 0.0) != (order < 0))
        return where(turned, -found, found)

    def second(x: Any) -> Any:
        n, x = broadcast(order, x)
        found = bessel_orders.second(bessel_orders.of_size(n), x, _second(0, x), _second(1, x))
        sign = where(bessel_orders.is_odd(n) & (order < 0), -1.0, 1.0)
        return where(x > 0.0, where(x == INFINITY, 0.0, sign * found), where(x == 0.0, -sign * INFINITY, NAN))

    return _in_double(name, arg1, first if name == "jn" else second)


def _series(terms: Sequence[float], t: Any) -> Any:
    """A Chebyshev series at -1 ≤ t ≤ 1."""
    double = t + t
    after: Any = 0.0
    following: Any = to_tensor(0.0)
    for term in reversed(terms[1:]):
        after, following = following, fma(double, following, term - after)
    return fma(t, following, terms[0] - after)


def _first(order: int, x: Any) -> Any:
    """j0 or j1 of x ≥ 0."""
    near = minimum(x, NEAR)
    series = _series(tables.J1 if order else tables.J0, near * near / 32.0 - 1.0)
    p, q, sine, cosine = _wave(order, x)
    far = where(x == INFINITY, 0.0, p * cosine - q * sine)
    return where(x > NEAR, far, near * series if order else series)


def _second(order: int, x: Any) -> Any:
    """y0 or y1 of x > 0."""
    near = minimum(x, NEAR)
    series = _series(tables.Y1 if order else tables.Y0, near * near / 32.0 - 1.0)
    logarithm = log(near) * _first(order, near)
    close = fma(2.0 / pi, logarithm - 1.0 / near, near * series) if order else fma(2.0 / pi, logarithm, series)
    p, q, sine, cosine = _wave(order, x)
    return where(x > NEAR, p * sine + q * cosine, close)


def _wave(order: int, x: Any) -> tuple[Any, Any, Any, Any]:
    """Factors of the expansion for large x, and sine and cosine of x - (2·order + 1)·π/4."""
    x = maximum(x, NEAR)
    part = NEAR / x
    t = 2.0 * part * part - 1.0
    size = sqrt(1.0 / (pi * x))  # with the √2 of the angle's sine and cosine
    p = _series(tables.P1 if order else tables.P0, t) * size
    q = _series(tables.Q1 if order else tables.Q0, t) * part * size
    s, c = sin(x), cos(x)
    return (p, q, -s - c, s - c) if order else (p, q, s - c, s + c)


def _modified(x: Any, near: Sequence[float], far: Sequence[float], factor: Any) -> Any:
    """i of x ≥ 0: `near` times `factor` up to 8, `far` over √x beyond, both times exp(x)."""
    close = _series(near, minimum(x, NEAR) / 4.0 - 1.0) * factor * exp(minimum(x, NEAR))
    x = maximum(x, NEAR)
    half = exp(x / 2.0)  # exp(x) overflows before i does
    return where(x > NEAR, where(x == INFINITY, INFINITY, _series(far, 16.0 / x - 1.0) / sqrt(x) * half * half), close)


def _of_order(order: int, x: Any) -> Any:
    """jn of x ≥ 0: forward from j0 and j1 where x is larger than the order, else backward from far above it."""
    if order < 2:
        return _first(order, x)
    before, found = _first(0, x), _first(1, x)
    for k in range(1, order):
        before, found = found, (2.0 * k / maximum(x, 1.0)) * found - before
    near = where(x < SMALL, 0.0, _backward(order, minimum(maximum(x, SMALL), order)))
    return where(x > order, where(x == INFINITY, 0.0, found), near)


def _backward(order: int, x: Any) -> Any:
    """jn of 0 < x ≤ order: a recurrence from order + √(160·order) down, scaled so that j0 + 2·j2 + 2·j4 + … is 1."""
    start = (order + isqrt(160 * order)) // 2 * 2
    above, here, found, total = 0.0 * x, 0.0 * x + 1.0, 0.0 * x, 0.0 * x
    for k in range(start, 0, -1):
        above, here = here, (2.0 * k / x) * here - above
        size = abs(here)
        scale = where(size > LARGE, 1.0 / maximum(size, LARGE), 1.0)
        above, here, found, total = above * scale, here * scale, found * scale, total * scale
        if k - 1 == order:
            found = here
        if k > 1 and k % 2:
            total = total + here
    return found / fma(2.0, total, here)
