"""Bessel functions, for libdevice. All compute in fp64; the result of fp32 is rounded from that.

Up to x = 8 Chebyshev series in x² (for y beside a logarithm), from there on cosine and sine of x with slowly varying
factors. Largest errors for |x| ≤ 700: i0 4 ulp, i1 12 ulp; j and y of order n (1.5 + n/25)·1e-15 times the larger of
|value| and √(2/πx), where the latter counts as 1 at most. Near the zeros this is small in relation to the function
nearby, not to its value.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import partial, wraps
from math import isqrt, pi
from typing import Any

from tilewright.language.control import while_loop
from tilewright.language.extra import bessel_tables as tables
from tilewright.language.extra.special_functions import INFINITY, NAN, in_double
from tilewright.language.math import abs, cos, exp, floor, fma, log, sin, sqrt
from tilewright.language.operations import cast, maximum, minimum, reduce, where
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.math import check_element
from tilewright.semantics.types import float64, int32

NEAR = 8.0
LARGE = 1e30
"""Value from which on growing recurrences are scaled down."""
SMALL = 1e-100
"""Argument below which orders from 2 on are taken for 0."""
Step = Callable[[Any, Any, Any], Any]


def with_order(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of an order, an int or an int32 tile, and of x in fp64, made one of fp32, too."""
    name = function.__name__

    @wraps(function)
    def call(arg0: Any, arg1: Any) -> Any:
        order = unwrap(arg0)
        if not isinstance(order, int):
            order = to_tensor(order)
            check_element(f"the order of {name}", order, (int32,))
        return in_double(partial(function, order), name)(arg1)

    call.forms = ("int32, fp32 -> fp32", "int32, fp64 -> fp64")  # type: ignore[attr-defined]  # functions take any attribute
    return call


@in_double
def j0(x: Any) -> Any:
    """The Bessel function of the first kind, order 0."""
    return _first(0, abs(x))


@in_double
def j1(x: Any) -> Any:
    """The Bessel function of the first kind, order 1."""
    return _of_first_kind(1, x)


@with_order
def jn(order: Any, x: Any) -> Any:
    """The Bessel function of the first kind; the order is a constant or an int32 tile."""
    if isinstance(order, int):
        return _of_first_kind(order, x)
    n, size = broadcast(order, abs(x))
    found = _first_of(_order_size(n), size, _first(0, size), _first(1, size))
    turned = _is_odd(n) & ((x < 0.0) != (order < 0))
    return where(turned, -found, found)


@in_double
def y0(x: Any) -> Any:
    """The Bessel function of the second kind, order 0; NaN below 0."""
    return _of_second_kind(0, x)


@in_double
def y1(x: Any) -> Any:
    """The Bessel function of the second kind, order 1; NaN below 0."""
    return _of_second_kind(1, x)


@with_order
def yn(order: Any, x: Any) -> Any:
    """The Bessel function of the second kind; the order is a constant or an int32 tile. NaN below 0."""
    if isinstance(order, int):
        return _of_second_kind(order, x)
    n, x = broadcast(order, x)
    found = _second_of(_order_size(n), x, _second(0, x), _second(1, x))
    return _right_of_zero(x, found, where(_is_odd(n) & (order < 0), -1.0, 1.0))


@in_double
def cyl_bessel_i0(x: Any) -> Any:
    """The modified Bessel function of the first kind, order 0."""
    return _modified(abs(x), tables.I0, tables.I0_LARGE, 1.0)


@in_double
def cyl_bessel_i1(x: Any) -> Any:
    """The modified Bessel function of the first kind, order 1."""
    size = _modified(abs(x), tables.I1, tables.I1_LARGE, minimum(abs(x), NEAR))
    return where(x < 0.0, -size, size)


def _of_first_kind(order: int, x: Any) -> Any:
    size = _of_order(builtins.abs(order), abs(x))
    if order % 2 == 0:
        return size
    return where(x < 0.0 if order > 0 else x >= 0.0, -size, size)


def _of_second_kind(order: int, x: Any) -> Any:
    sign = -1.0 if order < 0 and order % 2 else 1.0
    before, found = _second(0, x), _second(1, x)
    for k in range(1, builtins.abs(order)):
        before, found = found, where(found == -INFINITY, -INFINITY, (2.0 * k / x) * found - before)
    return _right_of_zero(x, before if order == 0 else found, sign)


def _right_of_zero(x: Any, found: Any, sign: Any) -> Any:
    """`found` times `sign` for finite x > 0, and the limits at both ends; NaN below 0."""
    return where(x > 0.0, where(x == INFINITY, 0.0, sign * found), where(x == 0.0, -sign * INFINITY, NAN))


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


# --- an order for each element: loops run as often as the largest order of the tile needs, and elements that are
# done keep their value


def _order_size(n: Any) -> Any:
    """The size of an order, as fp64."""
    return abs(cast(n, float64))


def _is_odd(n: Any) -> Any:
    """Whether an order is odd."""
    return (n & 1) != 0


def _first_of(n: Any, x: Any, zero: Any, one: Any) -> Any:
    """jn of x ≥ 0, for n ≥ 0 in fp64, from j0 and j1 of x."""
    divisor = maximum(x, 1.0)
    forward = _forward(n, zero, one, lambda k, found, before: (2.0 * k / divisor) * found - before)
    near = where(x < SMALL, 0.0, _backward_of(n, x))
    return where((x > n) | (n < 2.0), where((x == INFINITY) & (n > 1.0), 0.0, forward), near)


def _second_of(n: Any, x: Any, zero: Any, one: Any) -> Any:
    """yn of x > 0, for n ≥ 0 in fp64, from y0 and y1 of x."""

    def step(k: Any, found: Any, before: Any) -> Any:
        return where(found == -INFINITY, -INFINITY, (2.0 * k / x) * found - before)

    return _forward(n, zero, one, step)


def _forward(n: Any, zero: Any, one: Any, step: Step) -> Any:
    """The value of order n, from those of 0 and 1."""
    last = _largest(n)

    def iteration(carried: Any) -> Any:
        k, before, found = carried
        goes_on = k < n
        return k + 1.0, where(goes_on, found, before), where(goes_on, step(k, found, before), found)

    begin = cast(last * 0.0 + 1.0, float64)
    found = while_loop(lambda carried: carried[0] < last, iteration, (begin, zero, one))[2]
    return where(n == 0.0, zero, found)


def _backward_of(n: Any, x: Any) -> Any:
    """jn of 0 < x ≤ n: a recurrence from n + √(160·n) down, scaled so that j0 + 2·j2 + 2·j4 + … is 1."""
    n = maximum(n, 2.0)
    x = minimum(maximum(x, SMALL), n)
    start = floor((n + floor(sqrt(160.0 * n))) * 0.5) * 2.0

    def iteration(carried: Any) -> Any:
        k, above, here, found, total = carried
        starts, goes_on = k == start, k <= start
        here = where(starts, 1.0, here)
        below = (2.0 * k / x) * here - above
        size = abs(below)
        scale = where(size > LARGE, 1.0 / maximum(size, LARGE), 1.0)
        above, below, found, total = here * scale, below * scale, found * scale, total * scale
        found = where(k - 1.0 == n, below, found)
        counts = (k > 1.0) & (floor(k * 0.5) * 2.0 != k)
        total = total + where(counts, below, 0.0)
        kept = (where(goes_on, value, 0.0) for value in (above, below, found, total))
        return k - 1.0, *kept

    nothing = 0.0 * x
    values = while_loop(lambda carried: carried[0] > 0.0, iteration, (_largest(start), *[nothing] * 4))
    return values[3] / fma(2.0, values[4], values[2])


def _largest(n: Any) -> Any:
    """The largest element."""
    return reduce(n, None, maximum) if n.type.shape else n
