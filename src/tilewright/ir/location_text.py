"""Locations in text: `#loc` aliases, numbered and placed as in MLIR.

Every location gets an alias, more deeply nested ones later. Aliases used by block arguments come before the module, the
others after it.
"""

from __future__ import annotations

from tilewright.ir.aliases import AliasLine
from tilewright.ir.attributes import UNKNOWN, CallLocation, FileLocation, FusedLocation, Location, NameLocation
from tilewright.ir.literals import quoted


class LocationCollector:
    """Stands in for the aliases while a first printing finds out which locations are printed, and in which order."""

    def __init__(self) -> None:
        self.depths: dict[Location, int] = {}
        self.early: set[Location] = set()

    def begin(self, location: Location) -> None:
        """An op with that location starts."""
        self._visit(location, early=False)

    def trailing(self, location: Location) -> str:
        return ""

    def inline(self, location: Location | None) -> str:
        self._visit(location or UNKNOWN, early=True)
        return ""

    def _visit(self, location: Location, *, early: bool) -> int:
        """Give `location` and its parts a depth, and return it."""
        known = self.depths.get(location)
        if known is not None and (not early or location in self.early):
            return known
        if early:
            self.early.add(location)
        depth = max((self._visit(part, early=early) + 1 for part in _parts(location)), default=0)
        self.depths.setdefault(location, depth)
        return depth


class LocationAliases:
    """The aliases of all locations that a collector has seen."""

    def __init__(self, collector: LocationCollector) -> None:
        self._early = collector.early
        self._depths = collector.depths
        ordered = sorted(collector.depths, key=collector.depths.__getitem__)
        self._names = {location: f"#loc{i or ''}" for i, location in enumerate(ordered)}

    def begin(self, location: Location) -> None:
        """An op with that location starts: nothing to write yet."""

    def trailing(self, location: Location) -> str:
        """` loc(#loc3)`, as it follows an op."""
        return f" loc({self._names[location]})"

    def inline(self, location: Location | None) -> str:
        """` loc("x"(#loc3))`, as it follows a block argument."""
        return f" loc({self._text(location or UNKNOWN)})"

    def leading_lines(self) -> list[AliasLine]:
        """The lines before the op."""
        early = [location for location in self._names if location in self._early]
        return [AliasLine(self._depths[location], "loc", self._line(location)) for location in early]

    def trailing_text(self) -> str:
        """The lines after the op."""
        return "".join(self._line(location) for location in self._names if location not in self._early)

    def _line(self, location: Location) -> str:
        return f"{self._names[location]} = loc({self._text(location)})\n"

    def _text(self, location: Location) -> str:
        name = self._names
        match location:
            case FileLocation():
                return _place_text(location)
            case NameLocation(text, child):
                return quoted(text) if child == UNKNOWN else f"{quoted(text)}({name[child]})"
            case CallLocation(callee, caller):
                return f"callsite({name[callee]} at {name[caller]})"
            case FusedLocation(locations):
                return f"fused[{', '.join(name[part] for part in locations)}]"


def _place_text(location: FileLocation) -> str:
    """`"file":3:5`, with the end where it is known."""
    if location == UNKNOWN:
        return "unknown"
    start = f"{quoted(location.file)}:{location.line}:{location.column}"
    if not location.end_line:
        return start
    line = "" if location.end_line == location.line else str(location.end_line)
    return f"{start} to {line}:{location.end_column}"


def _parts(location: Location) -> tuple[Location, ...]:
    match location:
        case NameLocation(child=child):
            return () if child == UNKNOWN else (child,)
        case CallLocation(callee, caller):
            return (callee, caller)
        case FusedLocation(locations):
            return locations
        case _:
            return ()
