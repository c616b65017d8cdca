"""The operands of an instruction, from text.

OperandParser({"%rd1": 64}, {}).parse("[%rd1+16]")      # Address(Register("%rd1"), 16)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.syntax import (
    Address,
    Group,
    Immediate,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)

_NUMBER = re.compile(
    r"-?(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+U?)"
)
_SUM = re.compile(r"(.*?)\s*([+-])\s*(-?(?:0[xX][0-9a-fA-F]+|\d+))", re.S)
_NAME = re.compile(r"[%A-Za-z_$][\w$@.]*")
_GENERIC = re.compile(r"generic\s*\((.*)\)", re.S)


def split_operands(text: str) -> list[str]:
    """The pieces between commas that stand in no brackets."""
    if not any(bracket in text for bracket in "{[("):
        return [piece.strip() for piece in text.split(",")] if text.strip() else []
    pieces, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif character == "," and not depth:
            pieces.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces


class OperandParser:
    """Reads operands where some registers are declared, and inner names stand for others; remembers what it read."""

    def __init__(self, registers: Mapping[str, int], names: Mapping[str, str]) -> None:
        self.registers, self.names = registers, names
        self._known: dict[str, Operand] = {}

    def parse_all(self, texts: Iterable[str]) -> tuple[Operand, ...]:
        return tuple(self.parse(text) for text in texts if text)

    def parse(self, text: str) -> Operand:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._parse(text)
        return found

    def _parse(self, text: str) -> Operand:
        if text[0] == "{":
            return Vector(self.parse_all(split_operands(text[1:-1])))
        if text[0] == "(":
            return Group(self.parse_all(split_operands(text[1:-1])))
        if text[0] == "[":
            return self._address(text[1:-1].strip())
        if text[0] == "!":
            return Not(self.parse(text[1:].strip()))
        if "|" in text:
            first, second = text.split("|")
            return Pair(self.parse(first.strip()), self.parse(second.strip()))
        return self._single(text)

    def _single(self, text: str) -> Operand:
        if text == "_":
            return Sink()
        if _NUMBER.fullmatch(text):
            return Immediate(text.rstrip("U"))
        if inner := _GENERIC.fullmatch(text):
            return self.parse(inner[1].strip())
        if _NAME.fullmatch(text):
            name = self.names.get(text, text)
            if name in self.registers:
                return Register(name)
            return Special(name) if name[0] == "%" or name == "WARP_SZ" else Symbol(name)
        if found := _SUM.fullmatch(text):
            base = self.parse(found[1])
            if isinstance(base, Symbol):
                sign = -1 if found[2] == "-" else 1
                return Symbol(base.name, base.offset + sign * int(found[3], 0))
        raise SimulationError("syntax", f"cannot read the operand `{text}`")

    def _address(self, text: str) -> Address:
        base, *rest = split_operands(text)
        coordinates = self.parse_all(rest)
        if found := _SUM.fullmatch(base):
            sign = -1 if found[2] == "-" else 1
            return Address(self.parse(found[1].strip()), sign * int(found[3], 0), coordinates)
        return Address(self.parse(base), 0, coordinates)
