"""Reading text token by token, with positions of errors.

Every method that reads something leaves `position` after the white space and comments that follow it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilewright.ir.errors import ParseError
from tilewright.ir.literals import unquoted

T = TypeVar("T")

SPACE = r"\s*(?://[^\n]*\s*)*"
_space = re.compile(SPACE).match
_IDENTIFIER = re.compile(r"([A-Za-z_][\w$]*)" + SPACE, re.ASCII)
_DOTTED = re.compile(r"([A-Za-z_][\w$.]*)" + SPACE, re.ASCII)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"' + SPACE)
_SYMBOL = re.compile(r'@(?:([A-Za-z_][\w$.\-]*)|"((?:[^"\\\n]|\\.)*)")' + SPACE, re.ASCII)
_NUMBER = re.compile(r"(-?(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+))" + SPACE)
_TOKEN = re.compile(r'[%^@#!]?[\w$.\-]+|"[^"\n]*"?|->|\S', re.ASCII)


class Scanner:
    """A text and a position in it."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.position = 0
        self.skip_space()

    def error(self, expected: str, position: int | None = None) -> ParseError:
        """The error that `expected` was not found at `position` (by default here)."""
        at = self.position if position is None else position
        token = _TOKEN.match(self.text, at)
        found = f"'{token[0]}'" if token else "the end of the text"
        return self.problem(f"expected {expected}, found {found}", at)

    def problem(self, message: str, position: int) -> ParseError:
        """The error `message` about `position`."""
        position = min(position, len(self.text.rstrip()))
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        source = self.text[start : end if end >= 0 else len(self.text)]
        line = self.text.count("\n", 0, position) + 1
        return ParseError(message, self.file, line, position - start + 1, source)

    def skip_space(self) -> None:
        self.position = self._after_space(self.position)

    def _after_space(self, position: int) -> int:
        match = _space(self.text, position)
        assert match is not None, "the pattern matches the empty text"
        return match.end()

    def at_end(self) -> bool:
        return self.position >= len(self.text)

    def looks_at(self, literal: str) -> bool:
        """Whether `literal` comes next."""
        return self.text.startswith(literal, self.position)

    def optional(self, literal: str) -> bool:
        """Read `literal` if it comes next."""
        if self.text.startswith(literal, self.position):
            self.position = self._after_space(self.position + len(literal))
            return True
        return False

    def expect(self, literal: str) -> None:
        """Read `literal`; raises ParseError if something else comes."""
        if not self.optional(literal):
            raise self.error(f"'{literal}'")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read what `pattern` (which includes the space behind it) matches."""
        match = pattern.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def demand(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        """Match like `match`; raises ParseError if that fails."""
        match = pattern.match(self.text, self.position)
        if match is None:
            raise self.error(expected)
        self.position = match.end()
        return match

    def keyword(self, *words: str) -> str | None:
        """Read and return the next word if it is one of `words`."""
        match = _DOTTED.match(self.text, self.position)
        if match is None or match[1] not in words:
            return None
        self.position = match.end()
        return match[1]

    def one_of(self, words: Sequence[str], what: str) -> str:
        """Read and return one of `words`; raises ParseError if another word comes."""
        word = self.keyword(*words)
        if word is None:
            raise self.error(f"{what} ({', '.join(words)})")
        return word

    def identifier(self) -> str:
        return self.demand(_IDENTIFIER, "a word")[1]

    def dotted(self, what: str) -> str:
        """A word that may contain dots."""
        return self.demand(_DOTTED, what)[1]

    def string(self) -> str:
        """A string literal, without its escapes."""
        return unquoted(self.demand(_STRING, "a string")[1])

    def symbol(self) -> str:
        """`@name`, without the `@`."""
        match = self.demand(_SYMBOL, "a symbol such as @name")
        return match[1] or unquoted(match[2])

    def number_text(self) -> str:
        """The text of a number literal."""
        return self.demand(_NUMBER, "a number")[1]

    def integer(self) -> int:
        text = self.number_text()
        try:
            return int(text, 0)
        except ValueError:
            raise self.error(f"an integer, not {text},") from None

    def list(self, item: Callable[[], T], opening: str = "", closing: str = "") -> list[T]:
        """Items separated by commas; an empty list is possible only within brackets."""
        if opening:
            self.expect(opening)
        if closing and self.optional(closing):
            return []
        items = [item()]
        while self.optional(","):
            items.append(item())
        if closing and not self.optional(closing):
            raise self.error(f"',' or '{closing}'")
        return items


_BRACKETS = re.compile(r'[<>]|->|"(?:[^"\\\n]|\\.)*"')
_PLAIN = re.compile(r'<[^<>"\-]*>')
"""Brackets with no others inside, as most are."""


def closing(text: str, start: int) -> int:
    """The position behind the `>` that closes the `<` at `start`; -1 if there is none."""
    plain = _PLAIN.match(text, start)
    if plain is not None:
        return plain.end()
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        if match[0] == "<":
            depth += 1
        elif match[0] == ">":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1
