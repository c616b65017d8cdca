"""Integers that are known for each index of a tile: a constant, a step per axis, and a table for the rest.

tt.make_range 3 … 67                  first 3, steps [1]
%i // 2, for 64 elements              first 0, steps [0], rest [0, 0, 1, 1, 2, 2, …]
%i[:, None] * 64 + %j[None, :]        first 0, steps [64, 1]
"""

from __future__ import annotations

from math import gcd, prod
from typing import NamedTuple

import numpy as np

from tilewright.ir.types import Shape
from tilewright.support.exact_rounding import Array

ENUMERATED = 4096
"""Max number of elements of a tile whose elements are looked at one by one."""

Interval = tuple[int, int]
"""The least and the greatest value."""


class Table(NamedTuple):
    """first + Σ index · step + rest[index].

    Attributes:
        shape: that of the tile; () for a number.
        first: the value at index (0, …, 0).
        steps: per axis; 0 along an axis of one element.
        rest: what remains, 0 at index (0, …, 0); None if nothing remains.
    """

    shape: Shape
    first: int
    steps: tuple[int, ...]
    rest: Array | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are `first`."""
        return self.rest is None and not any(self.steps)

    @property
    def is_zero(self) -> bool:
        return not self.first and self.is_uniform

    @property
    def interval(self) -> Interval:
        """The least and the greatest element, or numbers below and above them."""
        low = high = self.first
        for extent, step in zip(self.shape, self.steps, strict=True):
            reach = step * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        if self.rest is not None:
            low, high = low + int(self.rest.min()), high + int(self.rest.max())
        return low, high

    @property
    def size(self) -> int:
        """No element is farther from zero."""
        low, high = self.interval
        return max(-low, high)

    @property
    def divisor(self) -> int:
        """A number that divides every element, less `first`."""
        divisor = gcd(*self.steps)
        return divisor if self.rest is None else gcd(divisor, int(np.gcd.reduce(self.rest, axis=None)))


def uniform(number: int, shape: Shape = ()) -> Table:
    """One number everywhere."""
    return Table(shape, number, (0,) * len(shape))


def from_array(array: Array) -> Table:
    """The table of an array of integers, with the steps that it has along the axes."""
    found = array.astype(np.int64)
    origin = (0,) * found.ndim
    first, steps = int(found[origin]), []
    rest = found - first
    for axis, extent in enumerate(found.shape):
        step = int(rest[(*origin[:axis], 1, *origin[axis + 1 :])]) if extent > 1 else 0
        steps.append(step)
        if step:
            along = (1,) * axis + (extent,) + (1,) * (found.ndim - axis - 1)
            rest = rest - np.arange(extent, dtype=np.int64).reshape(along) * step
    return Table(found.shape, first, tuple(steps), rest if rest.any() else None)


def to_array(table: Table) -> Array:
    """All elements."""
    found = np.full(table.shape, table.first, np.int64)
    for axis, (extent, step) in enumerate(zip(table.shape, table.steps, strict=True)):
        if step:
            along = (1,) * axis + (extent,) + (1,) * (len(table.shape) - axis - 1)
            found += np.arange(extent, dtype=np.int64).reshape(along) * step
    return found if table.rest is None else found + table.rest


def plus(a: Table, b: Table) -> Table:
    rest = a.rest if b.rest is None else b.rest if a.rest is None else a.rest + b.rest
    if rest is not None and a.rest is not None and b.rest is not None and not rest.any():
        rest = None
    steps = tuple(x + y for x, y in zip(a.steps, b.steps, strict=True))
    return Table(a.shape, a.first + b.first, steps, rest)


def times(table: Table, factor: int) -> Table:
    rest = None if table.rest is None or not factor else table.rest * factor
    return Table(table.shape, table.first * factor, tuple(step * factor for step in table.steps), rest)


def product(a: Table, b: Table) -> Table | None:
    """The product element by element; None if it would have to be enumerated and is too large."""
    if b.is_uniform:
        return times(a, b.first)
    if a.is_uniform:
        return times(b, a.first)
    return from_array(to_array(a) * to_array(b)) if prod(a.shape) <= ENUMERATED else None


def same_table(a: Table, b: Table) -> bool:
    """Whether all elements are equal, as far as steps and rest show."""
    if a[:3] != b[:3] or (a.rest is None) != (b.rest is None):
        return False
    return a.rest is b.rest or np.array_equal(a.rest, b.rest)  # type: ignore[arg-type]  # it compares None, too


def expand_dims(table: Table, axis: int) -> Table:
    shape = (*table.shape[:axis], 1, *table.shape[axis:])
    rest = None if table.rest is None else np.expand_dims(table.rest, axis)
    return Table(shape, table.first, (*table.steps[:axis], 0, *table.steps[axis:]), rest)


def broadcast(table: Table, shape: Shape) -> Table:
    """The table along new axes in front, and along axes that had one element."""
    new = len(shape) - len(table.shape)
    rest = None if table.rest is None else np.broadcast_to(table.rest, shape)
    return Table(shape, table.first, (0,) * new + table.steps, rest)


def transpose(table: Table, order: tuple[int, ...]) -> Table:
    shape, steps = (tuple(part[axis] for axis in order) for part in (table.shape, table.steps))
    return Table(shape, table.first, steps, None if table.rest is None else table.rest.transpose(order))


def reshape(table: Table, shape: Shape) -> Table | None:
    """The elements in row-major order in another shape; None if they would have to be enumerated and are too many."""
    if table.is_uniform:
        return uniform(table.first, shape)
    return from_array(to_array(table).reshape(shape)) if prod(shape) <= ENUMERATED else None
