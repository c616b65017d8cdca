"""Bessel functions whose order is another for each element: the recurrences of `bessel.py` as loops.

first(n, x)      forward from j0 and j1 where x is larger than n, else backward from far above n
second(n, x)     forward from y0 and y1

A loop takes as many turns as the largest order of the tile needs; elements that are done keep their value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language.control import while_loop
from tilewright.language.math import abs, floor, fma, sqrt
from tilewright.language.operations import cast, maximum, minimum, reduce, where
from tilewright.semantics.types import float64

LARGE, SMALL = 1e30, 1e-100
INFINITY = float("inf")
Step = Callable[[Any, Any, Any], Any]


def of_size(n: Any) -> Any:
    """The size of an order, as fp64."""
    return abs(cast(n, float64))


def is_odd(n: Any) -> Any:
    """Whether an order is odd."""
    return (n & 1) != 0


def first(n: Any, x: Any, zero: Any, one: Any) -> Any:
    """jn of x ≥ 0, for n ≥ 0 in fp64, from j0 and j1 of x."""
    divisor = maximum(x, 1.0)
    forward = _forward(n, zero, one, lambda k, found, before: (2.0 * k / divisor) * found - before)
    near = where(x < SMALL, 0.0, _backward(n, x))
    return where((x > n) | (n < 2.0), where((x == INFINITY) & (n > 1.0), 0.0, forward), near)


def second(n: Any, x: Any, zero: Any, one: Any) -> Any:
    """yn of x > 0, for n ≥ 0 in fp64, from y0 and y1 of x."""

    def step(k: Any, found: Any, before: Any) -> Any:
        return where(found == -INFINITY, -INFINITY, (2.0 * k / x) * found - before)

    return _forward(n, zero, one, step)


def _forward(n: Any, zero: Any, one: Any, step: Step) -> Any:
    """The value of order n, from those of 0 and 1."""
    last = _largest(n)

    def turn(carried: Any) -> Any:
        k, before, found = carried
        goes_on = k < n
        return k + 1.0, where(goes_on, found, before), where(goes_on, step(k, found, before), found)

    begin = cast(last * 0.0 + 1.0, float64)
    found = while_loop(lambda carried: carried[0] < last, turn, (begin, zero, one))[2]
    return where(n == 0.0, zero, found)


def _backward(n: Any, x: Any) -> Any:
    """jn of 0 < x ≤ n: a recurrence from n + √(160·n) down, scaled so that j0 + 2·j2 + 2·j4 + … is 1."""
    n = maximum(n, 2.0)
    x = minimum(maximum(x, SMALL), n)
    start = floor((n + floor(sqrt(160.0 * n))) * 0.5) * 2.0

    def turn(carried: Any) -> Any:
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
    values = while_loop(lambda carried: carried[0] > 0.0, turn, (_largest(start), *[nothing] * 4))
    return values[3] / fma(2.0, values[4], values[2])


def _largest(n: Any) -> Any:
    """The largest element."""
    return reduce(n, None, maximum) if n.type.shape else n
