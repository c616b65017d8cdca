"""Facts read from a function's source lines that its bytecode lacks: `x: tl.constexpr`, `x := a`.

Columns count bytes of UTF-8 within a line, as in bytecode.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import CodeType

from tilewright.ir.attributes import FileLocation

_CONSTEXPR = r"""\s*:\s*["']?\s*(?:\w+\s*\.\s*)*constexpr\b"""
_CONSTANT = re.compile(_CONSTEXPR)
_DECLARED = re.compile(rf"""\s*(\w+){_CONSTEXPR}["']?\s*(?:#|$)""")
_NAMED = re.compile(r"\s*:=")


class ProgramText:
    """The lines of a file with a function."""

    def __init__(self, code: CodeType, lines: Sequence[str]) -> None:
        """Take the lines; there are none where the file cannot be read."""
        first = self._first_line = code.co_firstlineno
        self._lines = lines
        last = max((line for _, _, line in code.co_lines() if line is not None), default=first)
        declared = ((number, _DECLARED.match(text)) for number, text in enumerate(lines[first - 1 : last], first))
        self._declared = {found[1]: number for number, found in reversed([*declared]) if found is not None}

    @property
    def is_at_hand(self) -> bool:
        """Whether the text of the function is known."""
        return len(self._lines) >= self._first_line

    def says_constant(self, store: FileLocation) -> bool:
        """Whether the text goes on with `: tl.constexpr` behind a store."""
        return _CONSTANT.match(self._rest_after(store)) is not None

    def declares_constant(self, store: FileLocation, name: str) -> bool:
        """Whether a line of the function above a store says `name: tl.constexpr`, without a value."""
        return self._declared.get(name, store.line) < store.line

    def is_named_expression(self, store: FileLocation) -> bool:
        """Whether the text goes on with `:=` behind a store."""
        return _NAMED.match(self._rest_after(store)) is not None

    def at(self, place: FileLocation, start: int, end: int | None = None) -> str:
        """The text of a place's line, counted from the place's column; "" if unknown."""
        line, column = place.line, place.column - 1
        if not 0 < line <= len(self._lines):
            return ""
        text = self._lines[line - 1]
        stop = None if end is None else column + end
        if text.isascii():
            return text[column + start : stop]
        return text.encode()[column + start : stop].decode(errors="replace")

    def _rest_after(self, place: FileLocation) -> str:
        return self.at(place, place.end_column - place.column)
