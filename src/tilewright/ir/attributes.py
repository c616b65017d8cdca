"""Attributes and locations: plain immutable values.

Besides the classes below an attribute may be a `bool`, a `str`, a `Type`, a `tuple` of attributes (MLIR's array)
or a `dict` from names to attributes.

loc(callsite("helper.py":3:12 at "kernel.py":7:9))      its Span: helper.py:3:12, called from kernel.py:7:9
"""

from __future__ import annotations

from typing import TypeAlias

from tilewright.ir.types import Type
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.source import Span


class Number(NamedTuple):
    """`16 : i32`, `1.0 : f32`; with a tensor type a splat: `dense<0> : tensor<4xi32>`."""

    value: int | float
    type: Type


class Dense(NamedTuple):
    """Element values in row-major order that are not all equal: `dense<[0, 1]> : tensor<2xi32>`."""

    values: tuple[int | float, ...]
    type: Type


class Symbol(NamedTuple):
    """A reference to a function: `@name`."""

    name: str


class Keyword(NamedTuple):
    """A value of an enumeration, by its keyword: `x`, `acq_rel`, `tf32`."""

    name: str


class DenseArray(NamedTuple):
    """`array<i32: 1, 0>`."""

    element: Type
    values: tuple[int, ...]


class Opaque(NamedTuple):
    """An attribute that only its dialect understands, as text: `#ttg.blocked<{…}>`."""

    text: str


class Unit(NamedTuple):
    """An attribute that says everything by being there."""


UNIT = Unit()

Attribute: TypeAlias = (
    "Number | Dense | Symbol | Keyword | DenseArray | Opaque | Unit"
    " | bool | str | Type | tuple[Attribute, ...] | dict[str, Attribute]"
)


class FileLocation(NamedTuple):
    """A place in a source file; `line` and `column` start at 1. `end_*` mark the end of the expression (0: unknown)."""

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0


class NameLocation(NamedTuple):
    """A location with the name of the variable that holds the value: `"x"(loc)`."""

    name: str
    child: Location


class CallLocation(NamedTuple):
    """A place in an inlined function, and the place that called it."""

    callee: Location
    caller: Location


class FusedLocation(NamedTuple):
    """The locations of several ops that were merged into one."""

    locations: tuple[Location, ...]


Location: TypeAlias = "FileLocation | NameLocation | CallLocation | FusedLocation"
UNKNOWN = FileLocation("", 0, 0)


def span_of(location: Location) -> Span:
    """The source span of an IR location, with the chain of calls."""
    match location:
        case FileLocation():
            return Span(*location)
        case CallLocation(callee, caller):
            return span_of(callee).called(span_of(caller))
        case NameLocation(_, child):
            return span_of(child)
        case FusedLocation(locations):
            return span_of(locations[0])


def place_of(location: Location) -> str:
    """The innermost file and line with a space in front, ` (kernel.py:12)`, or nothing where they are unknown."""
    span = span_of(location)
    return f" ({span.file}:{span.line})" if span.line else ""
