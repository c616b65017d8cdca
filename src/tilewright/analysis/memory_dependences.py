"""Whether two accesses may be reordered, or share a loop: the only place that decides about the order of accesses.

    tt.store x + 4·i0, 64 lanes       tt.load x + 256 + 4·i0       Independent: no byte in common
    tt.store x + 4·i0                 tt.load x + 4·i0             SameElement: only equal indices overlap
    tt.store x + 4·i0                 tt.load y + 4·i0             Guarded: if y - x >= 256 or x - y >= 256 or x == y
    tt.store x + 4·i0 + 64·i1         tt.store y + 4·i0 + 64·i1    Guarded: that, or (y - x) mod 64 leaves room for both
    tt.store x + 4·i0                 tt.load x + 4·(i0 // 2)      Ordered: different indices overlap

The claims are about one execution of each access in which both see the same values; they hold for every value of the
arguments, and of anything else that the function does not compute from constants. Addresses and masks are assumed not
to wrap (docs/memory-model.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import NamedTuple, TypeAlias

import numpy as np

from tilewright.analysis.guard_conditions import (
    ALWAYS,
    NEVER,
    Condition,
    Sum,
    either,
    every,
    is_zero,
    minus,
    not_negative,
    plus,
    remainder,
    whole,
)
from tilewright.analysis.integer_forms import Terms, same_terms
from tilewright.analysis.lane_masks import Mask
from tilewright.analysis.memory_accesses import (
    Extent,
    Lanes,
    MemoryAccess,
    MemoryAccesses,
    extent_of,
    is_shared,
    lanes_apart,
    offsets,
    start_of,
    varying,
)
from tilewright.support.exact_rounding import Array

MAX_PAIRS = 4096
"""Max number of overlapping pairs of lanes whose masks are compared."""


class Independent(NamedTuple):
    """No element is touched by both: they may be done in any order."""


class SameElement(NamedTuple):
    """Only lanes of the same index overlap: both may be executed lane by lane, each lane in program order."""


class Guarded(NamedTuple):
    """Independent where `apart` holds, the same element where `same` does; what the run has to compare."""

    apart: Condition
    same: Condition


class Ordered(NamedTuple):
    """They have to keep their order."""


Dependence: TypeAlias = Independent | SameElement | Guarded | Ordered


def dependence(
    first: MemoryAccess, second: MemoryAccess, accesses: MemoryAccesses, *, gaps: bool = False
) -> Dependence:
    """The dependence between two accesses of one function, whether they read or write.

    With `gaps`, the run also compares whether each lies in the other's gaps, which costs six more scalar ops.
    """
    a, b, between = first.lanes, second.lanes, accesses.between(first, second)
    if _never_active(a.mask, b.mask) or _misses_by_remainder(a, b, between):
        return Independent()
    found, distance = _at_run_time(a, b, between, gaps), between.number
    if distance is None or isinstance(found, (Independent, SameElement)):
        return found
    by_lanes = _by_lanes(a, b, distance)
    return found if by_lanes is None else by_lanes


def _never_active(*masks: Mask) -> bool:
    return any(mask.on is not None and not mask.on.any() for mask in masks)


def _misses_by_remainder(a: Lanes, b: Lanes, between: Sum) -> bool:
    """Whether all lanes of one leave other remainders than those of the other: even and odd elements."""
    divisor = gcd(*(factor for monomial, factor in between.terms.items() if monomial))
    if divisor == 1:
        return False
    divisor, distance = gcd(a.divisor, b.divisor, divisor), between.terms.get((), 0)
    return divisor > 0 and a.size <= distance % divisor <= divisor - b.size


# --- lane by lane -------------------------------------------------------------------------------------------------


def _by_lanes(a: Lanes, b: Lanes, distance: int) -> Dependence | None:
    """The answer where the addresses differ by known numbers only, from comparing the lanes; None if they do not."""
    left, right = a.offsets, b.offsets
    if left is None or right is None:
        return None
    pairs = _meeting(left[a.active], right[b.active] + distance, a.size, b.size)
    if pairs is None:
        return Ordered()
    here, there = a.active[pairs[0]], b.active[pairs[1]]
    possible = _possible(a.mask, b.mask, here, there)
    here, there = here[possible], there[possible]
    if not len(here):
        return Independent()
    fits = a.shape == b.shape and a.size == b.size and bool((here == there).all())
    return SameElement() if fits and bool((left[here] == right[there] + distance).all()) else None


def _meeting(a: Array, b: Array, size: int, other: int) -> tuple[Array, Array] | None:
    """The pairs of places in `a` and `b` whose elements share bytes; None if there are more than MAX_PAIRS."""
    order = np.argsort(b, kind="stable")
    ordered = b[order]
    first = np.searchsorted(ordered, a - other, side="right")
    counts = np.searchsorted(ordered, a + size, side="left") - first
    total = int(counts.sum())
    if total > MAX_PAIRS:
        return None
    places = np.repeat(np.arange(len(a)), counts)
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, order[first[places] + within]


def _possible(a: Mask, b: Mask, lanes: Array, others: Array) -> Array:
    """The pairs of lanes that may be active together: no two bounds that hold for one each add up to less than zero."""
    possible = np.ones(len(lanes), np.bool_)
    for bound in a.bounds:
        for other in b.bounds:
            left, right = varying(bound.terms), varying(other.terms)
            total = plus(start_of(bound.terms), start_of(other.terms)).number
            first, second = offsets(left, bound.shape), offsets(right, other.shape)
            if total is not None and first is not None and second is not None:
                possible &= _at(first, lanes) + _at(second, others) + total >= 0
    return possible


def _at(values: Array, lanes: Array) -> Array:
    return values[lanes] if len(values) > 1 else values


# --- at run time --------------------------------------------------------------------------------------------------


def _at_run_time(a: Lanes, b: Lanes, between: Sum, gaps: bool) -> Dependence:
    """The answer that ranges and strides give, now or when the kernel runs."""
    same: Condition = NEVER
    if a is b or (a.shape == b.shape and a.size == b.size and same_terms(a.varying, b.varying)):
        begins = is_zero(between)
        same = begins if begins == NEVER else every((begins, a.apart if a is b else lanes_apart(a, b)))
        if same == ALWAYS:
            return SameElement()
    apart = _apart(a, b, between)
    if gaps and apart != NEVER:
        apart = either((apart, interleaved(a, b, between)))
    if apart == ALWAYS:
        return Independent()
    return Ordered() if apart == same == NEVER else Guarded(apart, same)


def _apart(a: Lanes, b: Lanes, between: Sum) -> Condition:
    """That what one touches ends where what the other touches begins, or before."""
    here, there = a.extent, b.extent
    if here is None or there is None:
        return NEVER
    after = minus(plus(between, there.low), here.high), minus(here.low, plus(between, there.high))
    return either([not_negative(distance) for distance in after])


def interleaved(a: Lanes, b: Lanes, between: Sum) -> Condition:
    """That all lanes of one lie in the gaps of the other, whose start is `between` bytes behind that of the first.

        out + 4·i1 + 256·i0, 16 x 32 lanes          one half of rows of 64 elements
        end + 4·i1 + 256·i0, 16 x 32 lanes          the other: (end - out) mod 256 >= 128, and it is <= 256 - 128

    Both access patterns repeat after a period that divides their long steps; within one period each accesses a run of
    bytes. The runs are disjoint if the second begins after the first and ends before the first recurs.
    """
    if not (_are_steps(a.varying) and _are_steps(b.varying)):
        return NEVER
    for period in _periods(a, b):
        here, there = _run(a, period), _run(b, period)
        lengths = minus(here.high, here.low), minus(there.high, there.low)
        room = minus(whole(period), plus(*lengths))
        if not_negative(room) != NEVER:
            after = minus(remainder(plus(between, minus(there.low, here.low)), period), lengths[0])
            return every((not_negative(after), not_negative(minus(room, after))))
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
