"""Descriptions of a tile's value on the lanes of a loop.

`lane` counts along the vectorised axis: chunk start + 0, 1, …, W - 1.

    Uniform          one number for all lanes                    splat, row values, scalars
    Affine           base + stride · lane                        ranges, addresses
    ModuloRange      base + lane, less a modulus at the end      ranges modulo something
    RepeatedRange    base + lane // times                        ranges divided by a number
    WrappingLine     extension of a line that may wrap           (start + range).to(int64)
    WrappingSum      base + lane < bound, which may wrap         start + range < n
    ActiveLaneBound  lane < below                                masks such as range < n
    Address          base pointer + offset in elements           pointers
    Vector           one value per lane, in a vector register

`level` is the loop depth at which a value exists: 0 before the nest, then one per loop. Code for a value is built at
its level, so loop-invariant code stays outside.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tilewright.dialects.tt_memory import pointee_type
from tilewright.ir.core import Value
from tilewright.ir.types import Type

Scalar: TypeAlias = Value | int
"""An integer or a truth value, known or not; other numbers and pointers are values always."""


class Uniform(NamedTuple):
    value: Scalar
    level: int


class Affine(NamedTuple):
    """base + stride · lane; with `local`, lane counts from the start of the chunk, and `base` belongs to the chunk."""

    base: Scalar
    stride: Scalar
    level: int
    local: bool = False


class WrappingLine(NamedTuple):
    """base + stride · lane, which wraps in `type`, extended with its sign."""

    line: Affine
    type: Type
    level: int


class ModuloRange(NamedTuple):
    """base + lane on lanes below `below`, an i64; base - modulus + lane from there on."""

    base: Scalar
    modulus: Scalar
    below: Scalar
    level: int


class RepeatedRange(NamedTuple):
    """base + lane // times; chunks begin at multiples of `times`, and have several."""

    base: Scalar
    times: int
    level: int


class WrappingSum(NamedTuple):
    """base + lane <predicate> bound: the sum wraps in `type`; the bound and the extended sum are of type `wide`."""

    base: Scalar
    bound: Scalar
    predicate: str
    type: Type
    wide: Type
    level: int


class ActiveLaneBound(NamedTuple):
    """True on lanes below `below`, an i64, and on others only where sums of `parts` wrap, which all parts decide.

    Without parts nothing wraps.
    """

    below: Scalar
    level: int
    parts: tuple[WrappingSum | ActiveLaneBound | Uniform, ...] = ()


class Vector(NamedTuple):
    value: Value
    level: int


Offsets: TypeAlias = Uniform | Affine | ModuloRange | RepeatedRange | Vector


class Address(NamedTuple):
    """`offset` counts elements of what `base` points at."""

    base: Uniform
    offset: Offsets

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return size_of(pointee(pointer(self.base)))


Spread: TypeAlias = (
    Uniform | Affine | ModuloRange | RepeatedRange | WrappingLine | WrappingSum | ActiveLaneBound | Address
)
"""A description that is not a vector yet."""
Lane: TypeAlias = Spread | Vector
Index: TypeAlias = tuple[Offsets, ...]

RANGES = (Affine, ModuloRange, RepeatedRange)
"""Kinds of lanes that stay what they are where a number is added, which their base is then more."""

LANE = Affine(0, 1, 0)
"""The index along the vectorised axis."""

ZERO = Uniform(0, 0)


def uniform(lane: Lane | None) -> Uniform:
    """`lane`, of which is known that it is one number for all lanes."""
    assert isinstance(lane, Uniform), f"{lane} is not one number"
    return lane


def known_truth(lane: Lane) -> int | None:
    """Whether a mask is on (1) or off (0) on all lanes, as far as that is known now."""
    return lane.value if isinstance(lane, Uniform) and isinstance(lane.value, int) else None


def pointer(lane: Uniform | Vector) -> Value:
    """The address, or the addresses, that `lane` is."""
    assert isinstance(lane.value, Value), f"{lane} is no address"
    return lane.value


def pointee(address: Value) -> Type:
    """The type of what an address is one of."""
    return pointee_type(address.type.scalar)


def size_of(element: Type) -> int:
    """The bytes of an element in memory: truth values take one."""
    return max(8, element.bits) // 8


def affine_address(lane: Lane) -> Address:
    """`lane`, of which is known that it is a base and an offset."""
    assert isinstance(lane, Address), f"{lane} is no address with an offset"
    return lane


def level_of(lane: Lane) -> int:
    """The level at which everything in `lane` exists."""
    if isinstance(lane, Address):
        return max(lane.base.level, level_of(lane.offset))
    return lane.level


def deeper(lane: Lane, level: int) -> Lane:
    """`lane`, known only at `level` or below: it is another one elsewhere."""
    if isinstance(lane, Address):
        return lane._replace(base=lane.base._replace(level=max(lane.base.level, level)))
    return lane._replace(level=max(lane.level, level))


def is_chunked(lane: Lane) -> bool:
    """Whether `lane` belongs to one chunk of lanes."""
    if isinstance(lane, Address):
        return is_chunked(lane.offset)
    return isinstance(lane, Vector) or (isinstance(lane, Affine) and lane.local)
