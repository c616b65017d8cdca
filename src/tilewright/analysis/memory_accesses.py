"""Loads and stores: the address of each of their elements, the active lanes, and the extent that these reach.

x + 4·s·i0 + 4·i1, 16x64 lanes, active where i1 < n
    indices          i0: 0 … 15      i1: 0 … count - 1, where count is min(64, n)
    low              x + min(0, 60·s)
    high             x + max(0, 60·s) + 4·count
    lanes apart      |4·s| >= 4·count

Masked-off lanes access nothing. Facts that several queries need are computed on first use.
"""

from __future__ import annotations

from math import gcd, prod
from typing import NamedTuple

import numpy as np

from tilewright.analysis.guard_conditions import (
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
from tilewright.analysis.index_tables import ENUMERATED, Table, to_array, uniform
from tilewright.analysis.integer_forms import FARTHEST, Form, Monomial, Terms
from tilewright.analysis.integer_forms import scaled as scaled_form
from tilewright.analysis.lane_masks import Mask, mask_of
from tilewright.analysis.value_forms import ValueForms, size_of
from tilewright.dialects.cpu import GuardedStore
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr, Load, Store
from tilewright.ir.core import Value, defining
from tilewright.ir.types import PointerType, Shape
from tilewright.support.cached_property import cached_property
from tilewright.support.exact_rounding import Array

ONE = whole(1)
MAX_FACTOR = 8
"""Max multiple of what a cpu.within bounds: the bytes of an element."""


class Ends(NamedTuple):
    """The first index along an axis on which a lane may be active, and the one behind the last."""

    first: Sum
    end: Sum


class Extent(NamedTuple):
    """The memory that active lanes touch, from an address on: the least distance, and that behind the last byte."""

    low: Sum
    high: Sum


class Lanes:
    """How the lanes of accesses lie around an address, and which of them are active.

    Attributes:
        shape: that of the tile whose elements are touched.
        size: bytes of one element.
        terms: the distance of each lane from the address, in bytes.
        start: that of lane (0, …, 0), without what each lane has for itself.
        varying: what distinguishes the lanes.
        mask: which lanes are active.
    """

    def __init__(self, form: Form, size: int, mask: Mask) -> None:
        self.shape, self.terms = form
        self.size = size
        self.start = start_of(form.terms)
        self.varying = varying(form.terms)
        self.mask = mask

    @property
    def are_bounded(self) -> bool:
        """Whether the lanes that numbers do not distinguish apart lie between two known at run time."""
        return all(
            is_shared(monomial) or (len(monomial) == 1 and monomial[0].between is not None) for monomial in self.varying
        )

    @cached_property
    def divisor(self) -> int:
        """A number that divides the distance of any two lanes, and of addresses that are equal."""
        factors = [table.divisor for table in self.terms.values()]
        return gcd(*factors, *(table.first for monomial, table in self.varying.items() if not is_shared(monomial)))

    @cached_property
    def offsets(self) -> Array | None:
        """The distance of each lane from the first one, if known now."""
        return offsets(self.varying, self.shape)

    @cached_property
    def active(self) -> Array:
        """The lanes that may be active, if `offsets` are known."""
        on = self.mask.on
        return np.arange(prod(self.shape)) if on is None else np.flatnonzero(on.reshape(-1))

    @cached_property
    def ends(self) -> tuple[Ends, ...]:
        """Per axis the active indices that bounds in the mask imply."""
        return ends_of(self.mask, self.shape)

    @cached_property
    def extent(self) -> Extent | None:
        """The memory that active lanes touch, from `start` on; None if a lane may be anywhere.

        It is looked up lane by lane where steps do not describe it, or the mask is known.
        """
        steps_only = self.mask.on is None and all(table.rest is None for table in self.varying.values())
        if steps_only or self.offsets is None:
            extent = extent_of(self.varying, self.ends)
        else:
            active = self.offsets[self.active]
            extent = Extent(whole(int(active.min())), whole(int(active.max())))
        return None if extent is None else Extent(extent.low, plus(extent.high, whole(self.size)))

    @cached_property
    def apart(self) -> Condition:
        """That different lanes share no byte."""
        return lanes_apart(self, self)


class MemoryAccess(NamedTuple):
    """An op's access to memory: a lane lies at `base`, and from there on where `lanes` says."""

    base: Sum
    lanes: Lanes

    @property
    def start(self) -> Sum:
        """The address of lane (0, …, 0), without what each lane has for itself."""
        return plus(self.base, self.lanes.start)


class MemoryAccesses:
    """The accesses of the loads and stores of one function; those with the same offsets and lanes share `Lanes`."""

    def __init__(self) -> None:
        self.forms = ValueForms()
        self.scalars = ValueForms(self.forms.symbols, sees_scalars=True)
        self._lanes: dict[tuple[Value, Value | None, int], Lanes] = {}

    def of(self, op: Load | Store | GuardedStore) -> MemoryAccess:
        """The access of `op`."""
        return self.at(op.pointer, op.mask)

    def at(self, pointer: Value, mask: Value | None) -> MemoryAccess:
        """An access at `pointer`, of the lanes for which `mask` holds; None: of all."""
        sum, size = defining(pointer, AddPtr), size_of(pointer)
        base = None if sum is None else self.forms.of(sum.pointer)
        if sum is None or base is None or varying(base.terms):
            return MemoryAccess(ZERO, self._shared(pointer, mask, size))
        return MemoryAccess(start_of(base.terms), self._shared(sum.offset, mask, size))

    def between(self, a: MemoryAccess, b: MemoryAccess) -> Sum:
        """The distance from the start of `a` to that of `b`; scalars are looked into where they may be of one array."""
        distance = minus(b.base, a.base) if a.lanes is b.lanes else minus(b.start, a.start)
        symbols = {symbol for monomial in distance.terms for symbol in monomial}
        roots = {root_of(symbol.source) for symbol in symbols if isinstance(symbol.source.type, PointerType)}
        if not symbols or len(roots) > 1:
            return distance
        forms = [(factor, self._seen(monomial)) for monomial, factor in distance.terms.items()]
        return plus(*(scaled(start_of(form.terms), factor) for factor, form in forms))

    def _seen(self, monomial: Monomial) -> Form:
        return self.scalars.of(monomial[0].source) if len(monomial) == 1 else Form((), {monomial: uniform(1)})

    def _shared(self, value: Value, mask: Value | None, size: int) -> Lanes:
        key = value, mask, size
        if key not in self._lanes:
            form = self.forms.of(value)
            is_offset = not isinstance(value.type.scalar, PointerType)
            lanes = mask_of(self.forms, mask, value)
            self._lanes[key] = Lanes(scaled_form(form, size) if is_offset else form, size, lanes)
        return self._lanes[key]


def root_of(pointer: Value) -> Value:
    """The pointer that an address was computed from."""
    op = pointer.op
    if isinstance(op, AddPtr):
        return root_of(op.pointer)
    return root_of(op.operand) if isinstance(op, Bitcast) else pointer


def start_of(terms: Terms) -> Sum:
    """The address of lane (0, …, 0), which all lanes share; what each lane has for itself is left out."""
    return Sum({monomial: table.first for monomial, table in terms.items() if table.first and is_shared(monomial)})


def is_shared(monomial: Monomial) -> bool:
    """Whether the product is the same number on all lanes."""
    return not any(symbol.is_lane for symbol in monomial)


def varying(terms: Terms) -> Terms:
    """The part of an address that distinguishes the lanes."""
    return {
        monomial: table._replace(first=0) if is_shared(monomial) else table
        for monomial, table in terms.items()
        if not (table.is_uniform and is_shared(monomial))
    }


def offsets(terms: Terms, shape: Shape) -> Array | None:
    """The distance of each lane from the first one, in bytes, if that is known now and there are not too many."""
    if terms.keys() - {()} or prod(shape) > ENUMERATED:
        return None
    return to_array(terms[()]).reshape(-1) if terms else np.zeros(prod(shape), np.int64)


def ends_of(mask: Mask, shape: Shape) -> tuple[Ends, ...]:
    """Per axis the active indices that conditions on single axes imply."""
    ends = [Ends(ZERO, whole(extent)) for extent in shape]
    for bound in mask.bounds:
        axes = {axis for table in bound.terms.values() for axis, step in enumerate(table.steps) if step}
        if len(axes) != 1 or not _is_line(bound):
            continue
        (axis,) = axes
        step, rest = bound.terms[()].steps[axis], start_of(bound.terms)
        first, end = ends[axis]
        if step == -1:
            ends[axis] = Ends(first, least(end, plus(rest, ONE)))
        elif step == 1:
            ends[axis] = Ends(greatest(first, scaled(rest, -1)), end)
    return tuple(ends)


def _is_line(bound: Form) -> bool:
    """Whether the bound is a number that all lanes share, plus constant steps."""
    return () in bound.terms and all(
        table.rest is None and is_shared(monomial) and (not monomial or table.is_uniform)
        for monomial, table in bound.terms.items()
    )


def extent_of(terms: Terms, ends: tuple[Ends, ...]) -> Extent | None:
    """The bytes that lanes at these distances touch, but for the last one's element; None if a lane may be anywhere."""
    low = high = ZERO
    for axis, (first, end) in enumerate(ends):
        step = step_of(terms, axis)
        known = step.number
        if known != 0:
            corners = times(step, first), times(step, minus(end, ONE))
            low = plus(low, least(*corners) if known is None else corners[known < 0])
            high = plus(high, greatest(*corners) if known is None else corners[known > 0])
    for monomial, table in terms.items():
        if is_shared(monomial) and table.rest is None:
            continue
        extent = extent_of_rest(monomial, table)
        if extent is None:
            return None
        low, high = plus(low, extent.low), plus(high, extent.high)
    return Extent(low, high)


def extent_of_rest(monomial: Monomial, table: Table) -> Extent | None:
    """The range of what no steps describe: of an enumerated part, or of what each lane has for itself."""
    if is_shared(monomial):
        assert table.rest is not None, "steps are counted elsewhere"
        corners = [Sum({monomial: n} if n else {}) for n in (int(table.rest.min()), int(table.rest.max()))]
        return Extent(least(*corners), greatest(*corners))
    lanes = [symbol for symbol in monomial if symbol.is_lane]
    if len(monomial) == 1 and table.is_uniform and 0 < table.first <= MAX_FACTOR and lanes[0].between is not None:
        low, high = (Sum({(bound,): table.first}) for bound in lanes[0].between)
        return Extent(low, high)
    if len(lanes) > 1 or not lanes[0].is_bounded or not table.is_uniform:
        return None
    others = Sum({tuple(symbol for symbol in monomial if symbol is not lanes[0]): table.first})
    corners = [scaled(others, bound) for bound in (lanes[0].low, lanes[0].high)]
    if others.number is None and any(abs(end) > FARTHEST >> 1 for corner in corners for end in interval_of(corner)):
        return None  # no lane need be at a corner, so its address may wrap although the program's do not
    return Extent(least(*corners), greatest(*corners))


def step_of(terms: Terms, axis: int) -> Sum:
    """Bytes from one index to the next along an axis, as far as steps describe them."""
    return Sum(
        {monomial: table.steps[axis] for monomial, table in terms.items() if table.steps[axis] and is_shared(monomial)}
    )


def lanes_apart(a: Lanes, b: Lanes) -> Condition:
    """That lanes of different index share no byte, in two accesses to the addresses of `a`.

    It holds if the axes, from the first to the last or the other way round, each step over all that follow.
    """
    if any(table.rest is not None or not is_shared(monomial) for monomial, table in a.varying.items()):
        return NEVER
    axes = [axis for axis, extent in enumerate(a.shape) if extent > 1]
    steps = [size(step_of(a.varying, axis)) for axis in axes]
    if len(axes) < 2:
        return every([not_negative(minus(step, whole(a.size))) for step in steps])
    lengths = [times(step, _length(a.ends[axis], b.ends[axis])) for axis, step in zip(axes, steps, strict=True)]
    order = list(zip(steps, lengths, strict=True))
    return either([_each_steps_over(order, a.size), _each_steps_over(order[::-1], a.size)])


def _length(here: Ends, there: Ends) -> Sum:
    """How many indices lie between the first and the last one that is active in one of two accesses."""
    return minus(greatest(here.end, there.end), plus(least(here.first, there.first), ONE))


def _each_steps_over(axes: list[tuple[Sum, Sum]], bytes: int) -> Condition:
    inner, found = whole(bytes), list[Condition]()
    for step, length in reversed(axes):
        found.append(not_negative(minus(step, inner)))
        inner = plus(inner, length)
    return every(found)
