"""How far an access reaches: the least and the greatest address of its active lanes, and whether lanes share addresses.

x + 4·s·i0 + 4·i1, 16x64 lanes, active where i1 < n
    last index       i0: 15      i1: min(63, n - 1), at least 0
    low              x + min(0, 60·s)
    high             x + max(0, 60·s) + 4·last + 4
    lanes apart      |4·s| >= 4·last + 4
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple

import numpy as np

from tilewright.analysis.guard_conditions import (
    ALWAYS,
    NEVER,
    ZERO,
    Condition,
    Sum,
    either,
    every,
    greatest,
    interval_of,
    least,
    minus,
    not_negative,
    plus,
    scaled,
    size,
    times,
    whole,
)
from tilewright.analysis.index_tables import ENUMERATED, Shape, Table, to_array
from tilewright.analysis.integer_forms import Form, Monomial, Terms, Wrap, same_terms
from tilewright.analysis.lane_masks import Mask
from tilewright.analysis.memory_accesses import MemoryAccess
from tilewright.support.exact_rounding import Array

SUMMABLE, PRODUCT, FACTOR = 1 << 63, 1 << 62, 1 << 31
"""Sizes of what fits into 64 bits, of products of two numbers of 32 bits, and of a factor of such a product."""


class Ends(NamedTuple):
    """The first and the last index along an axis on which a lane may be active; `last` is no less than `first`."""

    first: Sum
    last: Sum


class Reach(NamedTuple):
    """The memory that the active lanes touch.

    Attributes:
        low: the least address.
        high: the address behind the last byte.
    """

    low: Sum
    high: Sum


class Footprint:
    """What questions about an access and others have in common, worked out once.

    Attributes:
        start: the address of lane (0, …, 0), without what each lane has for itself.
        varying: what distinguishes the lanes.
        offsets: the distance of each lane from the first one, if known now.
        lanes: the lanes that may be active, if `offsets` are known.
        divisor: what divides the distance of any two lanes, and of addresses that are equal.
        ends: per axis the active indices, as far as bounds in the mask tell.
        reach: the memory that active lanes touch; None if a lane may be anywhere.
        whole: the same for all lanes that no known mask turns off.
        plain: that the address is its form, though sums of 32 bits may wrap; and that `ends` are right.
    """

    def __init__(self, access: MemoryAccess, address: Form) -> None:
        self.access = access
        self.address = address
        self.start = start_of(address.terms)
        self.varying = varying(address.terms)
        self.offsets = offsets(self.varying, address.shape)
        on = access.mask.on
        lanes = 0 if self.offsets is None else len(self.offsets)
        self.lanes = np.arange(lanes) if on is None or not lanes else np.flatnonzero(on.reshape(-1))
        factors = [table.divisor for table in address.terms.values()]
        factors += [table.first for monomial, table in address.terms.items() if not is_shared(monomial)]
        self.divisor = gcd(address.modulus, *factors)
        self.ends, bounds = ends_of(access.mask, address.shape)
        self.plain = no_wrap(address.wraps), no_wrap(bounds)
        self.whole = self.reach = self._reach(everywhere(address.shape))
        if self.ends != everywhere(address.shape):
            self.reach = self._reach(self.ends)

    def _reach(self, ends: tuple[Ends, ...]) -> Reach | None:
        """The reach; looked up lane by lane where steps do not describe it, or the mask is known."""
        steps_only = self.access.mask.on is None and all(table.rest is None for table in self.varying.values())
        if steps_only or self.offsets is None:
            extent = _extent(self.varying, ends)
        else:
            active = self.offsets[self.lanes]
            extent = whole(int(active.min())), whole(int(active.max()))
        if extent is None:
            return None
        return Reach(plus(self.start, extent[0]), plus(self.start, extent[1], whole(self.access.size)))


def start_of(terms: Terms) -> Sum:
    """The address of lane (0, …, 0), which all lanes share; what each lane has for itself is left out."""
    return Sum({monomial: table.first for monomial, table in terms.items() if table.first and is_shared(monomial)})


def is_shared(monomial: Monomial) -> bool:
    """Whether the product is the same number on all lanes."""
    return not any(symbol.is_lane for symbol in monomial)


def varying(terms: Terms) -> Terms:
    """What distinguishes the lanes."""
    return {
        monomial: table._replace(first=0) if is_shared(monomial) else table
        for monomial, table in terms.items()
        if not (table.is_uniform and is_shared(monomial))
    }


def offsets(terms: Terms, shape: Shape) -> Array | None:
    """The distance of each lane from the first one, in bytes, if that is known now and there are not too many."""
    if terms.keys() - {()} or _size(shape) > ENUMERATED:
        return None
    return to_array(terms[()]).reshape(-1) if terms else np.zeros(_size(shape), np.int64)


def _size(shape: Shape) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def ends_of(mask: Mask, shape: Shape) -> tuple[tuple[Ends, ...], list[Wrap]]:
    """Per axis the active indices, as far as conditions on single axes tell; and what must not wrap for that."""
    ends, wraps = list(everywhere(shape)), list[Wrap]()
    for bound in mask.bounds:
        axes = {axis for table in bound.terms.values() for axis, step in enumerate(table.steps) if step}
        if len(axes) != 1 or () not in bound.terms or not _is_line(bound):
            continue
        (axis,) = axes
        step, rest = bound.terms[()].steps[axis], start_of(bound.terms)
        if step == -1:
            ends[axis] = Ends(ends[axis].first, least(ends[axis].last, rest))
        elif step == 1:
            ends[axis] = Ends(greatest(ends[axis].first, scaled(rest, -1)), ends[axis].last)
        wraps += bound.wraps
    return tuple(Ends(first, greatest(first, last)) for first, last in ends), wraps


def _is_line(bound: Form) -> bool:
    """Whether the bound is a number that all lanes share, plus constant steps."""
    return all(
        table.rest is None and is_shared(monomial) and (not monomial or table.is_uniform)
        for monomial, table in bound.terms.items()
    )


def no_wrap(wraps: Iterable[Wrap]) -> Condition:
    """That none of these values leaves the range of its type, on any lane."""
    found = list[Condition]()
    for terms, bits in _distinct(wraps):
        shape = next((table.shape for table in terms.values()), ())
        extent = _extent(varying(terms), everywhere(shape))
        if extent is None:
            return NEVER
        start, half = start_of(terms), 1 << (bits - 1)
        sums = (plus(start, extent[0], whole(half)), minus(whole(half - 1), plus(start, extent[1])))
        found += [_fit_for_sums(terms, sums), *map(not_negative, sums)]
    return every(found)


def _fit_for_sums(terms: Terms, sums: Iterable[Sum]) -> Condition:
    """That i64 sums of these terms do not wrap themselves: each product of symbols is one of 32 bits."""
    if all(-SUMMABLE < bound < SUMMABLE for sum in sums for bound in interval_of(sum)):
        return ALWAYS
    found = list[Condition]()
    for monomial in terms:
        one = Sum({monomial: 1})
        is_product = is_shared(monomial) and all(-PRODUCT <= bound <= PRODUCT for bound in interval_of(one))
        if not is_product or terms[monomial].size > FACTOR:
            return NEVER
        found += [not_negative(plus(one, whole(FACTOR))), not_negative(minus(whole(FACTOR), one))]
    return every(found)


def _distinct(wraps: Iterable[Wrap]) -> list[Wrap]:
    found = list[Wrap]()
    for wrap in wraps:
        if not any(wrap.bits == known.bits and same_terms(wrap.terms, known.terms) for known in found):
            found.append(wrap)
    return found


def everywhere(shape: Shape) -> tuple[Ends, ...]:
    """All indices."""
    return tuple(Ends(ZERO, whole(extent - 1)) for extent in shape)


def _extent(terms: Terms, ends: tuple[Ends, ...]) -> tuple[Sum, Sum] | None:
    low = high = ZERO
    for axis, (first, last) in enumerate(ends):
        step = step_of(terms, axis)
        corners = (ZERO, ZERO) if step.number == 0 else (times(step, first), times(step, last))
        if step.number is not None:
            least_one, most = corners if step.number >= 0 else corners[::-1]
        else:
            least_one, most = least(*corners), greatest(*corners)
        low, high = plus(low, least_one), plus(high, most)
    for monomial, table in terms.items():
        if is_shared(monomial) and table.rest is None:
            continue
        extent = _extent_of_rest(monomial, table)
        if extent is None:
            return None
        low, high = plus(low, extent[0]), plus(high, extent[1])
    return low, high


def _extent_of_rest(monomial: Monomial, table: Table) -> tuple[Sum, Sum] | None:
    """The range of what no steps describe: of an enumerated part, or of what each lane has for itself."""
    if is_shared(monomial):
        assert table.rest is not None, "steps are counted elsewhere"
        corners = [Sum({monomial: n} if n else {}) for n in (int(table.rest.min()), int(table.rest.max()))]
        return least(*corners), greatest(*corners)
    lanes = [symbol for symbol in monomial if symbol.is_lane]
    if len(lanes) > 1 or not lanes[0].is_bounded or not table.is_uniform:
        return None
    others = Sum({tuple(symbol for symbol in monomial if symbol is not lanes[0]): table.first})
    corners = [scaled(others, bound) for bound in (lanes[0].low, lanes[0].high)]
    return least(*corners), greatest(*corners)


def step_of(terms: Terms, axis: int) -> Sum:
    """Bytes from one index to the next along an axis, as far as steps describe them."""
    return Sum(
        {monomial: table.steps[axis] for monomial, table in terms.items() if table.steps[axis] and is_shared(monomial)}
    )


def lanes_apart(a: Footprint, ends: tuple[Ends, ...], others: tuple[Ends, ...]) -> Condition:
    """That lanes of different index at `ends` and at `others` share no byte, in accesses to the addresses of `a`.

    It holds if the axes, from the first to the last or the other way round, each step over all that follow.
    """
    if any(table.rest is not None or not is_shared(monomial) for monomial, table in a.varying.items()):
        return NEVER
    axes = []
    for axis, (here, there) in enumerate(zip(ends, others, strict=True)):
        if a.address.shape[axis] > 1:
            last = here.last if here.last == there.last else greatest(here.last, there.last)
            first = here.first if here.first == there.first else least(here.first, there.first)
            step = size(step_of(a.varying, axis))
            axes.append((step, times(step, minus(last, first))))
    orders = (axes, axes[::-1])[: max(1, len(axes))]
    return either([_each_steps_over(order, a.access.size) for order in orders])


def _each_steps_over(axes: list[tuple[Sum, Sum]], bytes: int) -> Condition:
    inner, found = whole(bytes), list[Condition]()
    for step, length in reversed(axes):
        found.append(not_negative(minus(step, inner)))
        inner = plus(inner, length)
    return every(found)
