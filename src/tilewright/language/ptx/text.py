"""The text of inline assembly, taken apart.

"{ .reg .b8 t<2>; @p mov.b16 {t0, t1}, $1; }"

Scope(opens=True), Declaration("b8", ("t0", "t1")), Statement("p", "mov.b16", ("{t0, t1}", "$1")), Scope(opens=False)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
PIECE = re.compile(r"\s*([{}]|[^;{}](?:[^;]*))?;?")
"""A brace where a statement could begin, or a statement, whose own braces hold operands."""
STATEMENT = re.compile(r"(?:@(!?\s*[%$\w]+)\s+)?(\S+)\s*(.*)", re.DOTALL)
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+")
DECLARATION = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
NUMBERED = re.compile(r"([%$\w]+)\s*<\s*(\d+)\s*>")


@dataclass(frozen=True)
class Scope:
    """A brace: what is declared between two is not known outside."""

    opens: bool


@dataclass(frozen=True)
class Declaration:
    """Registers of one type."""

    type: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """An instruction; `guard` is a predicate, perhaps with a `!` before it, or nothing."""

    guard: str
    name: str
    operands: tuple[str, ...]


def statements(text: str) -> Iterator[Scope | Declaration | Statement]:
    """The scopes, declarations and statements of `text`, in order."""
    for found in PIECE.finditer(COMMENT.sub(" ", text)):
        piece = (found[1] or "").strip()
        if piece in ("{", "}"):
            yield Scope(piece == "{")
        elif piece:
            yield _declaration(piece) or _statement(piece)


def _declaration(text: str) -> Declaration | None:
    found = DECLARATION.fullmatch(text)
    if found is None:
        return None
    names: list[str] = []
    for name in found[2].split(","):
        many = NUMBERED.fullmatch(name.strip())
        names += [f"{many[1]}{number}" for number in range(int(many[2]))] if many else [name.strip()]
    return Declaration(found[1], tuple(names))


def _statement(text: str) -> Statement:
    found = STATEMENT.fullmatch(text)
    assert found is not None, "any text that is not empty has a first word"
    operands = tuple(operand.strip() for operand in OPERAND.findall(found[3]) if operand.strip())
    return Statement((found[1] or "").replace(" ", ""), found[2], operands)
