"""Axis info: what is known about the values of an integer or pointer tile along each of its axes.

    [[10, 11, 12, 13, 18, 19, 20, 21],            contiguity  [1, 4]: aligned groups of 4 count up by one
     [20, 21, 22, 23, 28, 29, 30, 31]]            divisibility [1, 2]: every group of 4 starts at a multiple of 2
                                                  constancy   [1, 1]: aligned groups of 1 are equal

A pointer's contiguity counts elements, its divisibility counts bytes. Everything is a power of two.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from tilewright.ir.types import PointerType, Type

UNBOUNDED = 1 << 62
"""The divisibility of zero."""


class AxisInfo(NamedTuple):
    """Facts about a tile; a scalar is a tile of one axis with extent 1.

    Attributes:
        contiguity: per axis the length of aligned groups whose elements increase by one.
        divisibility: per axis a power of two that divides the first element of every such group.
        constancy: per axis the length of aligned groups whose elements are equal.
        constant: the value, if all elements have one known value.
        non_negative: no element is negative (as long as the program's signed arithmetic does not overflow).
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None
    non_negative: bool = False

    def divisor(self, axis: int, group: int = 1, unit: int = 1) -> int:
        """What divides the elements at multiples of `group` along `axis`; `unit` is the step inside a group."""
        contiguity, divisibility = self.contiguity[axis], self.divisibility[axis]
        if group % contiguity == 0:
            return divisibility
        return gcd(divisibility, gcd(group, contiguity) * unit)

    def common_divisor(self, unit: int = 1) -> int:
        """What divides every element."""
        return max(self.divisor(axis, unit=unit) for axis in range(len(self.contiguity)))


def axes(type: Type) -> tuple[int, ...]:
    """The extents of a tile; a scalar has one axis of extent 1."""
    return type.shape or (1,)


def unit_of(type: Type) -> int:
    """By how much neighbours in a group differ: 1, or the element's size for pointers."""
    scalar = type.scalar
    return max(1, scalar.pointee.bits // 8) if isinstance(scalar, PointerType) and scalar.pointee.shape is None else 1


def power_of_two(value: int) -> int:
    """The largest power of two that divides `value`."""
    return min(value & -value, UNBOUNDED) if value else UNBOUNDED


def nothing_known(type: Type, *, non_negative: bool = False) -> AxisInfo:
    ones = (1,) * len(axes(type))
    return AxisInfo(ones, ones, ones, None, non_negative)


def of_constant(value: int, type: Type) -> AxisInfo:
    shape = axes(type)
    return AxisInfo((1,) * len(shape), (power_of_two(value),) * len(shape), shape, value, value >= 0)


def join(a: AxisInfo, b: AxisInfo, type: Type) -> AxisInfo:
    """What holds whichever of the two a tile of `type` is."""
    if a == b:
        return a
    unit = unit_of(type)
    contiguity = tuple(map(gcd, a.contiguity, b.contiguity))
    return AxisInfo(
        contiguity,
        tuple(gcd(a.divisor(axis, g, unit), b.divisor(axis, g, unit)) for axis, g in enumerate(contiguity)),
        tuple(map(gcd, a.constancy, b.constancy)),
        a.constant if a.constant == b.constant else None,
        a.non_negative and b.non_negative,
    )
