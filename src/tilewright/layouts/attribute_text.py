"""Reading the text of a layout attribute into plain values, independently of the kinds of layouts.

    #ttg.slice<{dim = 1, parent = #ttg.blocked<{order = [1, 0]}>}>

becomes

    Written("ttg.slice", {"dim": 1, "parent": Written("ttg.blocked", {"order": [1, 0]})})

There are three other forms: `<[8:+4] {…}>` (pads), `<{…}, alignment = 16>` and `<blockM = 128, …>` (no braces).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from tilewright.layouts.errors import LayoutError

Value: TypeAlias = "int | bool | str | list[Value] | dict[str, Value] | Written"

_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<name>\#[A-Za-z_][\w.$-]*)|(?P<number>-?\d+)|(?P<word>[A-Za-z_][\w.$]*)"
    r"|(?P<mark>:\+|[<>{}\[\]=,:])|$)",
    re.ASCII,
)
MAX_DEPTH = 32
"""Max depth of brackets inside each other; more is no sensible layout, and would exhaust Python's stack."""
MAX_DIGITS = 12
_END = "the end"


@dataclass(frozen=True, slots=True)
class Written:
    """An attribute as it is written: its name without `#`, the keys in braces, the pads, the keys behind the braces."""

    name: str
    keys: dict[str, Value] = field(default_factory=dict)
    pads: tuple[tuple[int, int], ...] = ()
    trailing: dict[str, Value] = field(default_factory=dict)
    offset: int = 0


class Reader:
    """Reads one attribute. `read(text)` is what others call."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self._end = 0
        self.advance()

    def advance(self) -> None:
        """Go to the next token."""
        match = _TOKEN.match(self.text, self._end)
        if match is None:
            start = self._end + len(self.text[self._end :]) - len(self.text[self._end :].lstrip())
            raise LayoutError(f"unexpected character {self.text[start]!r}", start)
        self.kind = match.lastgroup or _END
        self.token = match[self.kind] if match.lastgroup else _END
        self.offset = match.start(self.kind) if match.lastgroup else len(self.text)
        self._end = match.end()

    def wrong(self, expected: str) -> NoReturn:
        found = self.token if self.kind is _END else f"'{self.token}'"
        raise LayoutError(f"expected {expected}, found {found}", self.offset)

    def take(self, kind: str, expected: str) -> str:
        """The current token, which must be of `kind`."""
        if self.kind != kind:
            self.wrong(expected)
        token = self.token
        self.advance()
        return token

    def skip(self, mark: str) -> bool:
        """Whether `mark` stands next; moves past it."""
        if self.token != mark or self.kind != "mark":
            return False
        self.advance()
        return True

    def expect(self, mark: str) -> None:
        if not self.skip(mark):
            self.wrong(f"'{mark}'")

    def number(self) -> int:
        if len(self.token) > MAX_DIGITS:
            raise LayoutError(f"the number {self.token[:MAX_DIGITS]}… is too large", self.offset)
        found = int(self.take("number", "a number"))
        if self.skip(":"):
            self.take("word", "a type")
        return found

    def value(self) -> Value:
        """The next value, of any kind."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LayoutError(f"more than {MAX_DEPTH} brackets inside each other", self.offset)
        try:
            match self.kind, self.token:
                case "number", _:
                    return self.number()
                case "name", _:
                    return self.attribute()
                case "mark", "[":
                    return self.items()
                case "mark", "{":
                    return self.braces()
                case "word", word:
                    self.advance()
                    return {"true": True, "false": False}.get(word, word)
            self.wrong("a value")
        finally:
            self.depth -= 1

    def items(self) -> list[Value]:
        """`[1, 2]`."""
        self.expect("[")
        found: list[Value] = []
        while not self.skip("]"):
            if found:
                self.expect(",")
            found.append(self.value())
        return found

    def pairs(self, close: str) -> dict[str, Value]:
        """`a = 1, b = 2` up to and with `close`."""
        found: dict[str, Value] = {}
        while not self.skip(close):
            if found:
                self.expect(",")
            offset = self.offset
            key = self.take("word", f"a key or '{close}'")
            if key in found:
                raise LayoutError(f"{key} is given twice", offset)
            self.expect("=")
            found[key] = self.value()
        return found

    def braces(self) -> dict[str, Value]:
        """`{a = 1}`."""
        self.expect("{")
        return self.pairs("}")

    def pads(self) -> tuple[tuple[int, int], ...]:
        """`[128:+4, 256:+8]`."""
        found: list[tuple[int, int]] = []
        self.expect("[")
        while not self.skip("]"):
            if found:
                self.expect(",")
            interval = int(self.take("number", "an interval")[:MAX_DIGITS])
            self.expect(":+")
            found.append((interval, int(self.take("number", "a number of elements")[:MAX_DIGITS])))
        return tuple(found)

    def attribute(self) -> Written:
        """`#name<…>`."""
        offset = self.offset
        name = self.take("name", "a layout such as #ttg.blocked<{…}>")[1:]
        if not self.skip("<"):
            return Written(name, offset=offset)
        pads = self.pads() if self.token == "[" else ()
        if self.token != "{":
            return Written(name, self.pairs(">"), pads, {}, offset)
        keys = self.braces()
        trailing = self.pairs(">") if self.skip(",") else {}
        if not trailing:
            self.expect(">")
        return Written(name, keys, pads, trailing, offset)


def read(text: str) -> Written:
    """The attribute that `text` is; raises LayoutError with the place of the first mistake."""
    reader = Reader(text)
    found = reader.attribute()
    if reader.kind is not _END:
        reader.wrong(_END)
    return found
