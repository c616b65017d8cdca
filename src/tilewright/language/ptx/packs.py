"""A text of inline assembly on tiles: their elements in registers, where several narrow ones share one of 32 bits.

    registers_of(x, pack=4)      x of uint8: one register with four neighbours; x of float32: four registers
    elements_of(found, uint8, (64,), pack=4)

Neighbours are those of the tile in row-major order. Of a scalar there is one; what else is in its register is 0.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

from tilewright.language.operations import cast
from tilewright.language.ptx.registers import Held, RegisterFile, chopped, joined, parts, raw, refused, width_of
from tilewright.language.ptx.run import run
from tilewright.language.shaping import join, reshape, split
from tilewright.semantics.broadcasting import stretch
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import dtype, int1, uint8
from tilewright.support.ptx_parser import parse_inline
from tilewright.support.ptx_syntax import PtxError, Register

WORD = 32
REGISTERS = {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
"""The bits of registers, by LLVM's letters for them."""


def computed(
    text: str, constraints: Sequence[str], tiles: Sequence[Tile], results: Sequence[dtype], pack: int
) -> list[Tile]:
    """The results of `text` on tiles of one shape, as operations on tiles."""
    kinds, shape = [tile.type.scalar for tile in tiles], tiles[0].extents if tiles else ()
    if pack > 1 and int1 in (*kinds, *results):
        raise refused("truth values do not share registers")
    places = _places(constraints, results, kinds, pack)
    numbered = _numbered(tiles, places, pack)
    try:
        body = parse_inline(text, {name: register.bits for name, register in numbered.items()})
        registers = RegisterFile(numbered, body.registers)
        run(body, registers)
    except PtxError as error:
        raise refused(error.text) from error
    return [_result(kind, names, registers, shape, pack) for kind, names in zip(results, places[0], strict=True)]


Place = tuple[str, str]
"""A register: its name in the text, and the constraint that says what kind it is."""


def _places(
    constraints: Sequence[str], results: Sequence[dtype], operands: Sequence[dtype], pack: int
) -> tuple[list[list[Place]], list[list[Place]]]:
    """The registers of each result and of each operand, in the order of the constraints."""
    named = [name.strip() for name in constraints if not name.strip().startswith("~")]
    counts = [how_many(kind, pack)[0] for kind in (*results, *operands)]
    if sum(counts) != len(named):
        raise refused(f"the constraints are {len(named)}, and results and operands take {sum(counts)} registers")
    places = iter([(f"${number}", _kind_of(name, named)) for number, name in enumerate(named)])
    found = [[next(places) for _ in range(count)] for count in counts]
    return found[: len(results)], found[len(results) :]


def _kind_of(constraint: str, constraints: Sequence[str]) -> str:
    """The letter of a constraint; that of a result for an operand that is tied to it."""
    letter = constraint.lstrip("=&")
    if letter.isdigit() and int(letter) < len(constraints):
        return letter + constraints[int(letter)].lstrip("=&")
    return letter


def _numbered(tiles: Sequence[Tile], places: tuple[list[list[Place]], list[list[Place]]], pack: int) -> dict[str, Held]:
    """The registers by their names; a result has no value, unless an operand is tied to it."""
    registers = {name: Held(_bits(name, letter)) for of_one in places[0] for name, letter in of_one}
    for tile, of_one in zip(tiles, places[1], strict=True):
        sizes = [_bits(name, letter.lstrip(string.digits)) for name, letter in of_one]
        _check_fit(of_one[0], width_of(tile.type.scalar) * (pack // len(of_one)), sizes[0])
        for (name, letter), register in zip(of_one, registers_of(tile, pack, sizes), strict=True):
            registers[name] = register
            if tied := letter.rstrip(string.ascii_letters):
                registers[f"${tied}"] = register
    return registers


def _bits(name: str, letter: str) -> int:
    if letter not in REGISTERS:
        raise refused(f"{name} is a register {letter!r}, which is none of {', '.join(REGISTERS)}")
    return REGISTERS[letter]


def _check_fit(place: Place, held: int, size: int) -> None:
    """Elements fill a register; only narrow ones may leave some of it."""
    if held != size and (held > size or size > WORD or held == WORD):
        raise refused(f"{place[0]} takes {held} bits, and its register {place[1]!r} has {size}")


def _result(kind: dtype, places: Sequence[Place], registers: RegisterFile, shape: tuple[int, ...], pack: int) -> Any:
    found = [registers.target(Register(name)) for name, _ in places]
    for (name, letter), register in zip(places, found, strict=True):
        _check_fit((name, letter), width_of(kind) * (pack // len(places)), register.bits)
        if register.tile is None:
            raise refused(f"the text gives {name} no value")
    return elements_of([stretched(register.tile, shape, pack) for register in found], kind, shape, pack)


def how_many(kind: dtype, pack: int) -> tuple[int, int]:
    """The registers for `pack` elements, and how many elements are in each."""
    shared = min(max(WORD // width_of(kind), 1), pack)
    return pack // shared, shared


def registers_of(tile: Any, pack: int, sizes: Sequence[int]) -> list[Held]:
    """The registers, of `sizes` bits, that hold a tile."""
    if tile.type.scalar == int1:
        tile = cast(tile, uint8)
    shared = pack // len(sizes)
    values = neighbours(tile, pack)
    groups = [values[first : first + shared] for first in range(0, pack, shared)]
    return [Held(size, joined(group, size)) for group, size in zip(groups, sizes, strict=True)]


def elements_of(registers: Sequence[Any], kind: dtype, shape: Sequence[int], pack: int) -> Any:
    """The tile of `kind` and `shape` whose elements are in these registers; they may be narrower than these."""
    shared, size = pack // len(registers), max(width_of(kind), 8)
    values = []
    for value in registers:
        values += parts(chopped(raw(value), size * shared), shared)
    whole = merged(values, shape)
    if kind == int1:
        return (whole & 1) != 0
    return cast(whole, kind, bitcast=not kind.is_ptr())


def neighbours(tile: Any, pack: int) -> list[Any]:
    """`pack` tiles: the first elements of all packs, the second ones, …"""
    if pack == 1:
        return [tile]
    if not tile.extents:
        return [tile, *[cast(raw(tile) & 0, tile.type.scalar)] * (pack - 1)]
    return _halved(reshape(tile, math.prod(tile.extents) // pack, *[2] * (pack.bit_length() - 1)), pack)


def _halved(tile: Any, pack: int) -> list[Any]:
    if pack == 1:
        return [tile]
    even, odd = split(tile)
    pairs = zip(_halved(even, pack // 2), _halved(odd, pack // 2), strict=True)
    return [tile for pair in pairs for tile in pair]


def stretched(tile: Any, shape: tuple[int, ...], pack: int) -> Any:
    """A value that is the same for all packs, in the shape of those tiles."""
    if tile.extents or not shape:
        return tile
    return stretch(tile, shape if pack == 1 else (math.prod(shape) // pack,))


def merged(tiles: Sequence[Any], shape: Sequence[int]) -> Any:
    """The opposite of `neighbours`."""
    if not shape:
        return tiles[0]
    return reshape(_side_by_side(tiles), *shape) if len(tiles) > 1 else tiles[0]


def _side_by_side(tiles: Sequence[Any]) -> Any:
    return tiles[0] if len(tiles) == 1 else join(_side_by_side(tiles[::2]), _side_by_side(tiles[1::2]))
