"""Locations in text: `#loc` aliases numbered and placed as MLIR does.

Every location gets an alias, the ones with deeper nesting later. Aliases needed by block arguments stand before
the module, the others after it.
"""

from __future__ import annotations

from tilewright.ir.attributes import UNKNOWN, CallLocation, FileLocation, FusedLocation, Location, NameLocation
from tilewright.ir.core import Op, Value
from tilewright.ir.quoting import quoted


class LocationAliases:
    """The aliases of all locations under one op."""

    def __init__(self, op: Op) -> None:
        self._depths: dict[Location, int] = {}
        self._early: set[Location] = set()
        self._visit_op(op)
        ordered = sorted(self._depths, key=self._depths.__getitem__)
        self._names = {location: f"#loc{i or ''}" for i, location in enumerate(ordered)}

    def trailing(self, location: Location) -> str:
        """` loc(#loc3)`, as it follows an op."""
        return f" loc({self._names[location]})"

    def inline(self, location: Location | None) -> str:
        """` loc("x"(#loc3))`, as it follows a block argument."""
        return f" loc({self._text(location or UNKNOWN)})"

    def leading_text(self) -> str:
        """The lines before the op."""
        return "".join(self._line(location) for location in self._names if location in self._early)

    def trailing_text(self) -> str:
        """The lines after the op."""
        return "".join(self._line(location) for location in self._names if location not in self._early)

    def _line(self, location: Location) -> str:
        return f"{self._names[location]} = loc({self._text(location)})\n"

    def _visit_op(self, op: Op) -> None:
        self._visit(op.location, early=False)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    self._visit_argument(argument)
                for inner in block:
                    self._visit_op(inner)

    def _visit_argument(self, argument: Value) -> None:
        self._visit(argument.location or UNKNOWN, early=True)

    def _visit(self, location: Location, *, early: bool) -> int:
        """Give `location` and its parts a depth, and return it."""
        known = self._depths.get(location)
        if known is not None and (not early or location in self._early):
            return known
        if early:
            self._early.add(location)
        depth = max((self._visit(part, early=early) + 1 for part in _parts(location)), default=0)
        self._depths.setdefault(location, depth)
        return depth

    def _text(self, location: Location) -> str:
        name = self._names
        match location:
            case FileLocation(file, line, column):
                return f"{quoted(file)}:{line}:{column}" if line or file else "unknown"
            case NameLocation(text, child):
                return quoted(text) if child == UNKNOWN else f"{quoted(text)}({name[child]})"
            case CallLocation(callee, caller):
                return f"callsite({name[callee]} at {name[caller]})"
            case FusedLocation(locations):
                return f"fused[{', '.join(name[part] for part in locations)}]"


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
