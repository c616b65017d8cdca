"""Axis info: what is known about the values of an integer or pointer tile along each of its axes.

    [[10, 11, 12, 13, 18, 19, 20, 21],            contiguity  [1, 4]: aligned groups of 4 count up by one
     [20, 21, 22, 23, 28, 29, 30, 31]]            divisibility [1, 2]: every group of 4 starts at a multiple of 2
                                                  constancy   [1, 1]: aligned groups of 1 are equal

A pointer's contiguity counts elements, its divisibility counts bytes. Everything is a power of two, unless a program
promises something else.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from tilewright.ir.types import IntType, PointerType, Type

UNBOUNDED = 1 << 62
"""The divisibility of zero, and everything about an unused value."""


class AxisInfo(NamedTuple):
    """Facts about a tile; a scalar is a tile of one axis with extent 1.

    Attributes:
        contiguity: per axis the length of aligned groups whose elements increase by one.
        divisibility: per axis what divides the first element of every such group.
        constancy: per axis the length of aligned groups whose elements are equal.
        constant: the value, if all elements have one known value.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None

    @property
    def text(self) -> str:
        """The text that Triton's `-test-print-alignment` has for it."""
        constant = "<none>" if self.constant is None else self.constant
        return (
            f"contiguity = {list(self.contiguity)}, divisibility = {list(self.divisibility)}, "
            f"constancy = {list(self.constancy)}, constant_value = {constant}"
        )

    def element_divisor(self, axis: int) -> int:
        """The divisor of each element that `axis` implies: only 1 if elements count up."""
        return 1 if self.contiguity[axis] > 1 else self.divisibility[axis]


def axes(type: Type) -> tuple[int, ...]:
    """The extents of a tile or of what a block pointer points to; a scalar has one axis of extent 1."""
    if isinstance(type, PointerType):
        type = type.pointee
    return type.shape or (1,)


def unit_of(type: Type) -> int:
    """The difference between neighbours in a group: 1, or the element's size for pointers."""
    scalar = type.scalar
    return max(1, scalar.pointee.bits // 8) if isinstance(scalar, PointerType) and scalar.pointee.shape is None else 1


def power_of_two(value: int) -> int:
    """The largest power of two that divides `value`."""
    return min(value & -value, UNBOUNDED) if value else UNBOUNDED


def nothing_known(type: Type) -> AxisInfo:
    """The info that any value has."""
    ones = (1,) * len(axes(type))
    return AxisInfo(ones, ones, ones)


def unused(type: Type) -> AxisInfo:
    """The info of an unused value: joined with another, that other one."""
    most = (UNBOUNDED,) * len(axes(type))
    return AxisInfo(most, most, most)


def of_constant(value: int, type: Type) -> AxisInfo:
    """All elements are `value`, wrapped to the width of `type`."""
    scalar, shape = type.scalar, axes(type)
    if isinstance(scalar, IntType) and scalar.bits > 1:
        half = 1 << (scalar.bits - 1)
        value = (value + half) % (2 * half) - half
    return AxisInfo((1,) * len(shape), (power_of_two(value),) * len(shape), shape, value)


def common_divisibility(a: AxisInfo, b: AxisInfo, axis: int) -> int:
    """The divisor of the first elements of the groups that both have; shorter groups start inside of longer ones."""
    counts, starts = (a.contiguity[axis], b.contiguity[axis]), (a.divisibility[axis], b.divisibility[axis])
    if counts[0] == counts[1] or UNBOUNDED in counts:
        return gcd(*starts)
    return gcd(*starts, *counts)


def join(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """The info that holds whichever of the two a tile is."""
    if a == b:
        return a
    return AxisInfo(
        tuple(map(gcd, a.contiguity, b.contiguity)),
        tuple(common_divisibility(a, b, axis) for axis in range(len(a.contiguity))),
        tuple(map(gcd, a.constancy, b.constancy)),
        a.constant if a.constant == b.constant else None,
    )
