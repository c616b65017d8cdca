"""Elements in registers: several narrow ones share one of 32 bits.

    registers_of(x, pack=4)      x of uint8: one register with four neighbours; x of float32: four registers
    elements_of(found, uint8, (64,), pack=4)

Neighbours are those of the tile in row-major order. Of a scalar there is one; what else is in its register is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.language.operations import cast
from tilewright.language.ptx.registers import Register, chopped, joined, parts, raw, width_of
from tilewright.language.shaping import join, reshape, split
from tilewright.semantics.broadcasting import stretch
from tilewright.semantics.types import dtype, int1, uint8

WORD = 32


def how_many(kind: dtype, pack: int) -> tuple[int, int]:
    """The registers for `pack` elements, and how many elements are in each."""
    shared = min(max(WORD // width_of(kind), 1), pack)
    return pack // shared, shared


def registers_of(tile: Any, pack: int, sizes: Sequence[int]) -> list[Register]:
    """The registers, of `sizes` bits, that hold a tile."""
    if tile.type.scalar == int1:
        tile = cast(tile, uint8)
    shared = pack // len(sizes)
    values = neighbours(tile, pack)
    groups = [values[first : first + shared] for first in range(0, pack, shared)]
    return [Register(size, joined(group, size)) for group, size in zip(groups, sizes, strict=True)]


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
