"""Two tiles in the gaps of one another: halves of the same rows, the images of one batch.

    out + 4·i1 + 256·i0, 16 x 32 lanes          one half of rows of 64 elements
    end + 4·i1 + 256·i0, 16 x 32 lanes          the other: (end - out) mod 256 >= 128, and it is <= 256 - 128

Both access patterns repeat after a period that divides their long steps; within one period each accesses a run of
bytes. The runs are disjoint if the second begins after the first and ends before the first recurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from tilewright.analysis.guard_conditions import (
    NEVER,
    Condition,
    Sum,
    every,
    minus,
    not_negative,
    plus,
    remainder,
    whole,
)
from tilewright.analysis.integer_forms import Terms
from tilewright.analysis.memory_accesses import Extent, Lanes, extent_of, is_shared


def interleaved(a: Lanes, b: Lanes, between: Sum) -> Condition:
    """That all lanes of one lie in the gaps of the other, whose start is `between` bytes behind that of the first."""
    if not (_are_steps(a.varying) and _are_steps(b.varying)):
        return NEVER
    for period in _periods(a, b):
        here, there = _run(a, period), _run(b, period)
        lengths = minus(here.high, here.low), minus(there.high, there.low)
        room = minus(whole(period), plus(*lengths))
        if not_negative(room) != NEVER:
            behind = minus(remainder(plus(between, minus(there.low, here.low)), period), lengths[0])
            return every((not_negative(behind), not_negative(minus(room, behind))))
    return NEVER


def _are_steps(terms: Terms) -> bool:
    return all(table.rest is None and is_shared(monomial) for monomial, table in terms.items())


def _periods(a: Lanes, b: Lanes) -> Iterator[int]:
    """Steps that divide all longer ones, the shortest first."""
    steps = sorted({abs(step) for lanes in (a, b) for table in lanes.varying.values() for step in table.steps} - {0})
    return (step for place, step in enumerate(steps) if gcd(*steps[place:]) == step)


def _run(lanes: Lanes, period: int) -> Extent:
    """The bytes that the lanes touch, as far as their steps are no multiples of the period."""
    terms = {
        monomial: table._replace(steps=tuple(step if step % period else 0 for step in table.steps))
        for monomial, table in lanes.varying.items()
    }
    found = extent_of(terms, lanes.ends)
    assert found is not None, "steps describe all lanes"
    return Extent(found.low, plus(found.high, whole(lanes.size)))
