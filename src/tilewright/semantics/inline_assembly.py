"""Assembly that a program brings along, as an op on each element of tiles.

inline_assembly("shl.b32 $0, $1, 3;", "=r,r", [x], [int32], pure=True, packed=1)      tt.elementwise_inline_asm
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dialects.tt_elementwise import CLOCK
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.types import i32
from tilewright.semantics.active import active
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast_shapes, stretch
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import AnyType, block_type, dtype, int64


def inline_assembly(
    text: str, constraints: str, values: Sequence[Any], results: Sequence[dtype], *, pure: bool, packed: int
) -> list[Tile]:
    """The results of `text` for each element, or for `packed` at a time.

    Args:
        text: PTX with `$0`, `$1`, … for results and operands.
        constraints: the kinds of registers, as LLVM spells them.
        values: tiles and numbers, which broadcast.
        results: their element types.
        pure: it does nothing but compute its results.
        packed: how many elements it takes of each operand.

    Only GPUs have assembly of their own; of any text but the clock the kernel is one for a GPU.
    """
    tiles = [to_tensor(value) for value in values]
    shape: tuple[int, ...] = ()
    for tile in tiles:
        shape = broadcast_shapes(shape, tile.extents)
    tiles = [stretch(tile, shape) for tile in tiles]
    types: list[AnyType] = [block_type(kind, shape) if shape else kind for kind in results]
    attributes: dict[str, Attribute] = {
        "asm_string": text,
        "constraints": constraints,
        "packed_element": Number(packed, i32),
        "pure": pure,
    }
    operands = [tile.handle for tile in tiles]
    found = active().emit("tt.elementwise_inline_asm", operands, tuple(type.ir for type in types), attributes)
    return [Tile.concrete(value, type) for value, type in zip(found, types, strict=True)]


def clock() -> Tile:
    """Nanoseconds since some time in the past, an int64 scalar."""
    return inline_assembly(CLOCK, "=l", [], [int64], pure=False, packed=1)[0]
