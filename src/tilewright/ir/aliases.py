"""Attribute aliases in text, chosen, numbered and ordered as in MLIR.

#blocked = #ttg.blocked<{sizePerThread = [4], …}>
#blocked1 = #ttg.blocked<{sizePerThread = [1], …}>
… tensor<128xf32, #blocked> …

While a module is printed, `AttributeAliases.mark` leaves a mark for every attribute that gets an alias; at the end,
when their order is known, the marks become names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tilewright.ir.scanner import closing

ALIAS_NAMES: dict[str, str] = {}
"""The alias of each kind of attribute that has one: `#ttg.blocked` → `blocked`. Dialects fill it."""

_HEAD = re.compile(r"#[\w$.]+", re.ASCII)
_MARK = re.compile(r"\0(\d+)\0")


class AliasLine(NamedTuple):
    """A line that defines an alias; lines are ordered by the first two fields."""

    depth: int
    kind: str
    text: str


class _Entry(NamedTuple):
    kind: str
    marked: str
    """The attribute's text, with marks for the aliases inside it."""


class AttributeAliases:
    """The aliases of the attributes in one text."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}
        self._entries: list[_Entry] = []

    def mark(self, text: str) -> str:
        """`text` of an attribute, with marks for the attributes that get an alias."""
        found = self._marks.get(text)
        if found is None:
            found = self._marks[text] = self._marked(text)
        return found

    def resolve(self, text: str) -> tuple[list[AliasLine], str]:
        """The lines that define the aliases of all marks in `text`, and `text` with aliases in their place."""
        if not self._entries:
            return [], text
        depths = dict(self._depths(text))
        ordered = sorted(depths, key=lambda number: (depths[number], self._entries[number].kind))
        names: dict[str, str] = {}
        counts: dict[str, int] = {}
        for number in ordered:
            kind = self._entries[number].kind
            count = counts[kind] = counts.get(kind, -1) + 1
            names[str(number)] = f"#{kind}{count or ''}"

        def named(marked: str) -> str:
            return _MARK.sub(lambda match: names[match[1]], marked)

        lines = [
            AliasLine(depths[n], self._entries[n].kind, f"{names[str(n)]} = {named(self._entries[n].marked)}\n")
            for n in ordered
        ]
        return lines, named(text)

    def _marked(self, text: str) -> str:
        head = _HEAD.match(text)
        if head is None:
            return self._inside(text)
        body = head[0] + self._inside(text[head.end() :])
        kind = ALIAS_NAMES.get(head[0])
        if kind is None:
            return body
        self._entries.append(_Entry(kind, body))
        return f"\0{len(self._entries) - 1}\0"

    def _inside(self, text: str) -> str:
        """`text` with the attributes in it marked."""
        pieces, position = [], 0
        while head := _HEAD.search(text, position):
            end = closing(text, head.end()) if text.startswith("<", head.end()) else head.end()
            pieces += [text[position : head.start()], self.mark(text[head.start() : end])]
            position = end
        return "".join(pieces) + text[position:]

    def _depths(self, text: str) -> Iterator[tuple[int, int]]:
        """Every marked attribute in order of appearance, with how deep aliases are nested in it."""
        depths: dict[int, int] = {}

        def depth(number: int) -> int:
            if number not in depths:
                depths[number] = 0  # keeps its place in the order
                inner = _MARK.findall(self._entries[number].marked)
                depths[number] = max((depth(int(n)) + 1 for n in inner), default=0)
            return depths[number]

        for number in dict.fromkeys(_MARK.findall(text)):
            depth(int(number))
        yield from depths.items()


def alias_text(lines: Iterable[AliasLine]) -> str:
    """The lines in MLIR's order: what others need first, then by name."""
    return "".join(line.text for line in sorted(lines, key=lambda line: (line.depth, line.kind)))
