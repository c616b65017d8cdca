"""The place of an op in the user's program, as the end of a message: ` (kernel.py:12)`."""

from __future__ import annotations

from tilewright.ir.attributes import CallLocation, FileLocation, FusedLocation, Location, NameLocation


def place_of(location: Location) -> str:
    """The innermost file and line with a space in front, or nothing where they are unknown."""
    found = _file(location)
    return f" ({found.file}:{found.line})" if found.line else ""


def _file(location: Location) -> FileLocation:
    match location:
        case NameLocation():
            return _file(location.child)
        case CallLocation():
            return _file(location.callee)
        case FusedLocation():
            return _file(location.locations[0])
        case FileLocation():
            return location
