"""Layouts of buffers that hardware copies tiles to and from, chosen for a shape.

nvmma_shared_for((64, 64), (1, 0), 16)
    #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.layouts.blocked import shape_per_cta
from tilewright.layouts.keys import Bases
from tilewright.layouts.shared import NvmmaShared

SWIZZLES = (128, 64, 32)
"""In bytes."""
ROWS_OF_A_PATTERN = 8


def nvmma_shared_for(
    shape: Sequence[int], order: Sequence[int], element_bits: int, cga: Bases = (), *, fp4_padded: bool = False
) -> NvmmaShared:
    """The buffer for tiles of `shape` with the widest swizzling that its rows fill.

    Args:
        shape: of the whole tile.
        order: its dimensions, the one that changes fastest first.
        element_bits: the width of an element.
        cga: how CTAs share the tile.
        fp4_padded: pairs of four-bit elements, each with a byte of padding.
    """
    extents = shape_per_cta(shape, cga)
    row_bytes = extents[order[0]] * (2 if fp4_padded else 1) * element_bits // 8
    rows = prod(extents[dim] for dim in order[1:])
    width = 0
    if len(shape) > 1 and rows >= ROWS_OF_A_PATTERN:
        width = next((width for width in SWIZZLES if row_bytes and row_bytes % width == 0), 0)
    transposed = len(order) > 1 and order[0] == 0
    return NvmmaShared(width, transposed, element_bits, fp4_padded, len(shape), cga)


def with_rank(layout: NvmmaShared, rank: int) -> NvmmaShared:
    """The buffer of the same elements as tiles of another rank, whose first dimensions have extent 1."""
    return NvmmaShared(
        layout.swizzling_byte_width,
        layout.transposed,
        layout.element_bit_width,
        layout.fp4_padded,
        rank,
        cga_with_rank(layout.cga, rank),
    )


def cga_with_rank(cga: Bases, rank: int) -> Bases:
    """How CTAs share a tile of another rank, whose first dimensions have extent 1."""
    return tuple((*(0,) * (rank - len(row)), *row[max(0, len(row) - rank) :]) for row in cga)
