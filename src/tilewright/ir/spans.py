"""Spans: places in source text, made of the locations of ops; what an error message shows.

loc(callsite("helper.py":3:12 at "kernel.py":7:9))      Span helper.py:3:12, called from kernel.py:7:9
"""

from __future__ import annotations

from tilewright.ir.attributes import CallLocation, FileLocation, FusedLocation, Location, NameLocation
from tilewright.support.source import Span


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
