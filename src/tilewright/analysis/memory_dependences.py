"""Whether two accesses may change places, or share a loop: the only place that decides about the order of accesses.

    tt.store x + 4·i0, 64 lanes       tt.load x + 256 + 4·i0       Independent: no byte in common
    tt.store x + 4·i0                 tt.load x + 4·i0             SameElement: only lanes of one index meet
    tt.store x + 4·i0                 tt.load y + 4·i0             Guarded: if y - x >= 256 or x - y >= 256 or x == y
    tt.store x + 4·i0                 tt.load x + 4·(i0 // 2)      Ordered: lanes of different indices meet

The claims are about one execution of each access in which both see the same values; every value of the arguments, and
of anything else that the function does not compute from constants, is allowed. Neither wrong sums of 32 bits nor masks
can make them wrong: an address is compared modulo what it is known by, and a guard includes that nothing wraps.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple, TypeAlias

import numpy as np

from tilewright.analysis.guard_conditions import (
    ALWAYS,
    NEVER,
    ZERO,
    Condition,
    Sum,
    either,
    every,
    is_zero,
    minus,
    not_negative,
    plus,
)
from tilewright.analysis.integer_forms import same_terms
from tilewright.analysis.lane_masks import ALL, Mask, excludes
from tilewright.analysis.loop_rounds import LaterRound
from tilewright.analysis.memory_accesses import MemoryAccess, memory_accesses
from tilewright.analysis.reaches import Footprint, Reach, everywhere, lanes_apart, offsets, start_of, varying
from tilewright.analysis.value_forms import ValueForms
from tilewright.dialects.scf import For
from tilewright.ir.core import Op
from tilewright.support.exact_rounding import Array

MOST_PAIRS = 4096
"""Max number of pairs of lanes that meet whose masks are compared."""


class Independent(NamedTuple):
    """No element is touched by both: they may be done in any order."""


class SameElement(NamedTuple):
    """Only lanes of the same index meet: both may be done lane by lane, each lane in program order."""


class Guarded(NamedTuple):
    """Independent where `apart` holds, the same element where `same` does.

    Attributes:
        apart, same: what the run has to compare; at least one of them may hold.
        no_wrap: that 32-bit sums are what they seem; without it neither says anything.
    """

    apart: Condition
    same: Condition
    no_wrap: Condition

    @property
    def condition(self) -> Condition:
        """That the two accesses are independent or touch the same element."""
        return every((self.no_wrap, either((self.apart, self.same))))


class Ordered(NamedTuple):
    """They have to keep their order; with `meets`, lanes of different indices do meet, unless sums of 32 bits wrap."""

    meets: bool = False


Dependence: TypeAlias = Independent | SameElement | Guarded | Ordered


class MemoryDependences:
    """The answers about the accesses of one function; what they have in common is worked out once."""

    def __init__(self, function: Op) -> None:
        self.forms = ValueForms()
        self.accesses = memory_accesses(function, self.forms)
        self._footprints: dict[int, Footprint] = {}

    def dependence(self, a: MemoryAccess, b: MemoryAccess) -> Dependence:
        """What two accesses have to do with each other, whether they read or write."""
        if _bases_differ(a, b) or excludes(a.mask, b.mask, same_lane=False) or _never_active(a.mask, b.mask):
            return Independent()
        here, there = self.footprint(a), self.footprint(b)
        return Ordered() if here is None or there is None else _compared(here, there)

    def conflict(self, a: MemoryAccess, b: MemoryAccess) -> Dependence:
        """`dependence`, but two loads are independent wherever they load from."""
        return self.dependence(a, b) if a.writes or b.writes else Independent()

    def between_rounds(self, a: MemoryAccess, b: MemoryAccess, loop: For) -> Independent | Guarded | Ordered:
        """What `a` in any round of `loop` and `b` in any other round have to do with each other."""
        later = LaterRound(self.forms, loop)
        answers = [self.dependence(a, later.access(b)), self.dependence(b, later.access(a))]
        if all(isinstance(answer, Independent) for answer in answers):
            return Independent()
        guards = [answer for answer in answers if isinstance(answer, Guarded)]
        if len(guards) + sum(isinstance(answer, Independent) for answer in answers) < len(answers):
            return Ordered()
        apart = later.whenever(every([guard.apart for guard in guards]))
        found = Guarded(apart, NEVER, later.whenever(every([guard.no_wrap for guard in guards])))
        return Ordered() if found.condition == NEVER else found

    def footprint(self, access: MemoryAccess) -> Footprint | None:
        """Where the access goes; None if it may go anywhere."""
        if access.address is None:
            return None
        known = self._footprints.get(id(access))
        if known is None or known.access is not access:
            known = self._footprints[id(access)] = Footprint(access, access.address)
        return known


def _compared(a: Footprint, b: Footprint) -> Dependence:
    between = minus(b.start, a.start)
    if _misses_by_remainder(a, b, between):
        return Independent()
    guarded, distance = _guarded(a, b, between), between.number
    if isinstance(guarded, Independent) or distance is None:
        return guarded
    masks = a.access.mask, b.access.mask
    is_same = isinstance(guarded, SameElement)
    if is_same and excludes(*masks, same_lane=True):
        return Independent()
    found = None if is_same and any(mask is ALL for mask in masks) else _by_lanes(a, b, distance)
    return guarded if found is None or found == Ordered(meets=False) else found


def _bases_differ(a: MemoryAccess, b: MemoryAccess) -> bool:
    """Whether one of them touches memory of its own, which the other one does not know."""
    for one, other in ((a, b), (b, a)):
        if one.is_private and one.base is not other.base:
            return other.base is not None or one.base not in other.op.operands
    return False


def _never_active(*masks: Mask) -> bool:
    return any(mask.on is not None and not mask.on.any() for mask in masks)


# --- remainders ---------------------------------------------------------------------------------------------------


def _misses_by_remainder(a: Footprint, b: Footprint, between: Sum) -> bool:
    """Whether all lanes of one leave other remainders than those of the other: even and odd elements."""
    divisor = gcd(a.divisor, b.divisor, *(factor for monomial, factor in between.terms.items() if monomial))
    distance = between.terms.get((), 0)
    return divisor > 0 and a.access.size <= distance % divisor <= divisor - b.access.size


# --- lane by lane -------------------------------------------------------------------------------------------------


def _by_lanes(a: Footprint, b: Footprint, distance: int) -> Dependence | None:
    """The answer where the addresses differ by known numbers only, from comparing the lanes; None where they do not."""
    left, right, masks = a.offsets, b.offsets, (a.access.mask, b.access.mask)
    modulus, sizes = gcd(a.address.modulus, b.address.modulus), (a.access.size, b.access.size)
    if left is None or right is None:
        return None
    low, high = left[a.lanes], right[b.lanes] + distance
    span = int(max(low.max(), high.max()) - min(low.min(), high.min())) + sum(sizes)
    if modulus and span >= modulus:
        return None
    certain = Ordered(meets=masks[0].is_exact and masks[1].is_exact)
    pairs = _meeting(low, high, *sizes)
    if pairs is None:
        return certain
    here, there = a.lanes[pairs[0]], b.lanes[pairs[1]]
    possible = _possible(*masks, here, there)
    here, there = here[possible], there[possible]
    if not len(here):
        return Independent()
    fits = a.address.shape == b.address.shape and sizes[0] == sizes[1] and bool((here == there).all())
    if fits and bool((left[here] == right[there] + distance).all()):
        return Independent() if excludes(*masks, same_lane=True) else SameElement()
    return certain


def _meeting(a: Array, b: Array, size: int, other: int) -> tuple[Array, Array] | None:
    """The pairs of places in `a` and `b` whose elements share bytes; None if there are more than MOST_PAIRS."""
    order = np.argsort(b, kind="stable")
    ordered = b[order]
    first = np.searchsorted(ordered, a - other, side="right")
    counts = np.searchsorted(ordered, a + size, side="left") - first
    total = int(counts.sum())
    if total > MOST_PAIRS:
        return None
    places = np.repeat(np.arange(len(a)), counts)
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, order[first[places] + within]


def _possible(a: Mask, b: Mask, lanes: Array, others: Array) -> Array:
    """Which pairs of lanes may be active together: no two bounds that hold for one each add up to less than zero."""
    possible = np.ones(len(lanes), np.bool_)
    for bound in a.bounds:
        for other in b.bounds:
            if bound.modulus or other.modulus:
                continue
            left, right = varying(bound.terms), varying(other.terms)
            total = plus(start_of(bound.terms), start_of(other.terms)).number
            first, second = offsets(left, bound.shape), offsets(right, other.shape)
            if total is not None and first is not None and second is not None:
                possible &= _at(first, lanes) + _at(second, others) + total >= 0
    return possible


def _at(values: Array, lanes: Array) -> Array:
    return values[lanes] if len(values) > 1 else values


# --- at run time --------------------------------------------------------------------------------------------------


def _guarded(a: Footprint, b: Footprint, between: Sum) -> Dependence:
    """What ranges and strides tell, now or when the kernel runs."""
    near = _is_near(a.whole, b.whole, gcd(a.address.modulus, b.address.modulus))
    fits = a.address.shape == b.address.shape and a.access.size == b.access.size and same_terms(a.varying, b.varying)
    if near:
        if _apart(a.whole, b.whole) == ALWAYS:
            return Independent()
        all = everywhere(a.address.shape)
        if fits and between == ZERO and lanes_apart(a, all, all) == ALWAYS:
            return SameElement()
    same = every((is_zero(between), lanes_apart(a, a.ends, b.ends))) if fits else NEVER
    plain = every((*a.plain[near:], *b.plain[near:]))
    found = Guarded(_apart(a.reach, b.reach), same, plain)
    if found.condition == ALWAYS:
        return Independent() if found.apart == ALWAYS else SameElement()
    return Ordered() if found.condition == NEVER else found


def _apart(a: Reach | None, b: Reach | None) -> Condition:
    if a is None or b is None:
        return NEVER
    return either((not_negative(minus(b.low, a.high)), not_negative(minus(a.low, b.high))))


def _is_near(a: Reach | None, b: Reach | None, modulus: int) -> bool:
    """Whether no two addresses are so far from each other that they might be equal modulo what they are known by."""
    if a is None or b is None:
        return False
    spans = [minus(one.high, other.low).number for one in (a, b) for other in (a, b)]
    return all(span is not None and (span < modulus or not modulus) for span in spans)
