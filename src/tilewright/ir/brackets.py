"""Angle brackets in the text of attributes and types."""

from __future__ import annotations

import re

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
