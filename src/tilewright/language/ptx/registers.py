"""The registers of inline assembly: each holds a tile, one element for each time that the text runs.

    registers.declare("b8", ("t0", "t1"))
    registers.read("$1", uint32)      the bits of $1 as uint32
    registers.write("t0", tile)

A register has a width and no type: its bits are read as each instruction takes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.language.extra.bits import bitcast, width
from tilewright.language.operations import cast, where
from tilewright.language.ptx.errors import refused
from tilewright.semantics.arithmetic import invert, to_tensor
from tilewright.semantics.types import (
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)U?\Z")
BITS_OF_FLOAT = re.compile(r"0[fFdD]([0-9a-fA-F]{8}|[0-9a-fA-F]{16})\Z")
DECIMAL = re.compile(r"-?\d+\.\d*([eE][-+]?\d+)?\Z")
UNSIGNED = {1: int1, 8: uint8, 16: uint16, 32: uint32, 64: uint64}
"""Types of plain bits, by their number."""
TYPES: dict[str, dtype] = {
    **{f"{letter}{bits}": UNSIGNED[bits] for letter in "bu" for bits in (8, 16, 32, 64)},
    "s8": int8,
    "s16": int16,
    "s32": int32,
    "s64": int64,
    "f16": float16,
    "bf16": bfloat16,
    "f32": float32,
    "f64": float64,
    "f16x2": uint32,
    "bf16x2": uint32,
    "u16x2": uint32,
    "s16x2": uint32,
    "f32x2": uint64,
    "pred": int1,
}
"""Types of PTX → those of the language; two halves in one register are bits."""
SINK = "_"
"""A target that is not wanted."""


@dataclass
class Register:
    """A place for `bits` bits of each element."""

    bits: int
    tile: Any = None


class Registers:
    """The registers that the names in a text stand for, scope by scope."""

    def __init__(self, named: Mapping[str, Register]) -> None:
        self.scopes: list[dict[str, Register]] = [dict(named)]

    def open(self) -> None:
        """A brace: from here on names may be declared again."""
        self.scopes.append({})

    def close(self) -> None:
        """The end of the innermost scope."""
        if len(self.scopes) == 1:
            raise refused("a closing brace has no opening one")
        self.scopes.pop()

    def declare(self, type: str, names: Sequence[str]) -> None:
        """New registers without values."""
        if type not in TYPES:
            raise refused(f"registers of type `.{type}` are GPUs'")
        self.scopes[-1].update({name: Register(width_of(TYPES[type])) for name in names})

    def find(self, name: str) -> Register | None:
        """The register of that name, the innermost one."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def target(self, name: str) -> Register:
        """The register that an instruction writes."""
        found = self.find(name)
        if found is None:
            raise refused(f"`{name}` is no register of the text")
        return found

    def read(self, text: str, kind: dtype, *, chops: bool = False) -> Any:
        """A register or a number as a tile of `kind`; with `chops` the low bits of a wider register."""
        register = self.find(text)
        if register is None:
            return number(text, kind)
        if register.tile is None:
            raise refused(f"`{text}` has no value yet")
        if chops and register.bits > width_of(kind):
            return read_as(chopped(raw(register.tile), width_of(kind)), kind)
        return read_as(register.tile, kind)

    def guard(self, text: str) -> Any:
        """The predicate `p` or `!p`, or None for no guard."""
        if not text:
            return None
        held = self.read(text.removeprefix("!"), int1)
        return invert(held) if text.startswith("!") else held

    def write(self, name: str, tile: Any, guard: Any = None, *, extends: bool = False) -> None:
        """Give a register a value where `guard` holds; with `extends` it may be wider than the value."""
        if name == SINK:
            return
        register = self.target(name)
        if extends and width_of(tile.type.scalar) < register.bits:
            tile = extended(tile, register.bits)
        if width_of(tile.type.scalar) != register.bits:
            raise refused(f"a value of {width_of(tile.type.scalar)} bits is written to `{name}`, of {register.bits}")
        if guard is not None:
            tile = where(guard, tile, self.read(name, tile.type.scalar))
        register.tile = tile


def width_of(kind: dtype) -> int:
    """The bits of a type; pointers have 64."""
    return 64 if kind.is_ptr() else int(kind.primitive_bitwidth)


def raw(tile: Any) -> Any:
    """The bits of each element, as an unsigned integer; truth values stay."""
    kind = tile.type.scalar
    return cast(tile, uint64) if kind.is_ptr() else bitcast(tile, UNSIGNED[width_of(kind)])


def chopped(tile: Any, bits: int) -> Any:
    """The lowest bits of each element."""
    return tile if width_of(tile.type.scalar) == bits else cast(tile, UNSIGNED[bits])


def extended(tile: Any, bits: int) -> Any:
    """A narrower value in more bits: with its sign, if it has one that counts."""
    kind = tile.type.scalar
    return cast(tile if kind.is_int() else raw(tile), UNSIGNED[bits])


def read_as(tile: Any, kind: dtype) -> Any:
    """The bits of `tile` under another type."""
    held = tile.type.scalar
    if width_of(held) != width_of(kind):
        raise refused(f"a register of {width_of(held)} bits is used as {kind}")
    if held == kind:
        return tile
    return cast(raw(tile), kind) if kind.is_ptr() else bitcast(raw(tile), kind)


def number(text: str, kind: dtype) -> Any:
    """A constant of the text as `kind`: an integer, a float in decimals, or the bits of one."""
    if BITS_OF_FLOAT.match(text):
        return read_as(bits(int(text[2:], 16), 4 * len(text[2:])), kind)
    if INTEGER.match(text) and not kind.is_floating():
        return read_as(bits(int(text.removesuffix("U"), 0), width_of(kind)), kind)
    if DECIMAL.match(text) and kind in (float32, float64):
        return cast(to_tensor(float(text)), kind)
    raise refused(f"`{text}` is no register with a value, and no number of {kind}")


def bits(value: int, size: int) -> Any:
    """A constant of `size` bits."""
    return cast(to_tensor(value % (1 << size)), UNSIGNED[size])


def parts(tile: Any, count: int) -> list[Any]:
    """`count` equal parts of the bits, the lowest first."""
    whole, size = raw(tile), width(tile) // count
    return [cast(whole >> (size * place), UNSIGNED[size]) for place in range(count)]


def joined(tiles: Sequence[Any], size: int) -> Any:
    """Several values in one of `size` bits, the first one lowest; zeros above them."""
    kind, place = UNSIGNED[size], 0
    whole: Any = None
    for tile in tiles:
        wide = cast(raw(tile), kind) << place if place else cast(raw(tile), kind)
        whole = wide if whole is None else whole | wide
        place += width(tile)
    return whole
