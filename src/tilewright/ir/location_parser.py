"""Reading locations.

loc("x"(#loc3))   with   #loc3 = loc("kernel.py":3:5)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.ir.attributes import UNKNOWN, CallLocation, FileLocation, FusedLocation, Location, NameLocation
from tilewright.ir.literals import unquoted
from tilewright.ir.scanner import SPACE, Scanner, closing

ALIAS = re.compile(r"([#!][\w.$]+)[ \t]*=[ \t]*", re.ASCII)
"""The start of the definition of an alias."""
_ALIAS_LINE = re.compile(rf"^[ \t]*{ALIAS.pattern}", re.MULTILINE | re.ASCII)
_REFERENCE = re.compile(r"(#[\w.$]+)" + SPACE, re.ASCII)
_STRING = r'"((?:[^"\\\n]|\\.)*)"'
# The three forms that nearly all locations have, each read at once.
_ALIASED = re.compile(r"loc\((#[\w.$]+)\)" + SPACE, re.ASCII)
_PLACE = re.compile(rf"loc\({_STRING}:(\d+):(\d+)\)" + SPACE, re.ASCII)
_NAMED = re.compile(rf"loc\({_STRING}\((#[\w.$]+)\)\)" + SPACE, re.ASCII)


class LocationParser(Scanner):
    """Reads locations, and knows where aliases are defined."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self._locations: dict[str, Location] = {}
        self._aliases = {match[1]: match.end() for match in _ALIAS_LINE.finditer(text)}
        self._open: set[str] = set()
        """Aliases whose definitions are being read."""
        self._alias_ends: dict[str, int] = {}
        """The ends of the definitions that have been read."""

    def bracket(self, start: int) -> int:
        """The position behind the bracket that closes the one at `start`."""
        end = closing(self.text, start)
        if end < 0:
            raise self.problem("this '<' is not closed", start)
        return end

    def location(self) -> Location | None:
        """`loc(…)` if it stands next."""
        short = _ALIASED.match(self.text, self.position)
        if short is not None:
            self.position = short.end()
            return self._aliased_location(short[1], short.start(1))
        if not self.text.startswith("loc(", self.position):
            return None
        self.position += 4
        self.skip_space()
        found = self._location()
        self.expect(")")
        return found

    def _location(self) -> Location:
        if self.looks_at("#"):
            return self._location_alias()
        if self.looks_at('"'):
            return self._named_location()
        match self.keyword("unknown", "callsite", "fused", "loc"):
            case "unknown":
                return UNKNOWN
            case "callsite":
                return self._call_location()
            case "fused":
                if self.looks_at("<"):
                    self.position = self.bracket(self.position)
                    self.skip_space()
                return FusedLocation(tuple(self.list(self._location, "[", "]")))
            case _:
                raise self.error("a location")

    def _named_location(self) -> Location:
        """`"file":3:5`, `"file":3:5 to 4:9`, `"x"`, `"x"(…)`."""
        text = self.string()
        if self.optional(":"):
            line = self.integer()
            self.expect(":")
            column = self.integer()
            return FileLocation(text, line, column, *self._location_end(line))
        if not self.optional("("):
            return NameLocation(text, UNKNOWN)
        child = self._location()
        self.expect(")")
        return NameLocation(text, child)

    def _location_end(self, line: int) -> tuple[int, int]:
        """` to 4:9`, ` to :9`, or nothing: (0, 0)."""
        if not self.keyword("to"):
            return 0, 0
        end_line = line if self.looks_at(":") else self.integer()
        self.expect(":")
        return end_line, self.integer()

    def _call_location(self) -> Location:
        self.expect("(")
        callee = self._location()
        self.expect("at")
        caller = self._location()
        self.expect(")")
        return CallLocation(callee, caller)

    def _location_alias(self) -> Location:
        reference = self.demand(_REFERENCE, "a location")
        return self._aliased_location(reference[1], reference.start())

    def _aliased_location(self, name: str, start: int) -> Location:
        """The location of the alias `name` at `start`."""
        known = self._locations.get(name)
        if known is not None:
            return known
        if name not in self._aliases:
            raise self.problem(f"there is no location {name}", start)
        with self.inside(name):
            found = self._locations[name] = self._definition()
            self._alias_ends[name] = self.position
        return found

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Read the definition of the alias `name`; afterwards go on where this began.

        Raises:
            ParseError: it is being read already.
        """
        if name in self._open:
            raise self.problem(f"{name} is defined by itself", self._aliases[name])
        self._open.add(name)
        resumed, self.position = self.position, self._aliases[name]
        yield
        self.position = resumed
        self._open.discard(name)

    def _definition(self) -> Location:
        """The location that stands behind `#loc3 = `."""
        place = _PLACE.match(self.text, self.position)
        if place is not None:
            self.position = place.end()
            return FileLocation(unquoted(place[1]), int(place[2]), int(place[3]))
        named = _NAMED.match(self.text, self.position)
        if named is not None:
            self.position = named.end()
            return NameLocation(unquoted(named[1]), self._aliased_location(named[2], named.start(2)))
        found = self.location()
        if found is None:
            raise self.error("a location")
        return found
