"""The choice of a tile's shared memory layout, for matrix instructions that read memory and operands in registers.

nvmma_for((128, 64), (1, 0), bits=16)         # swizzlingByteWidth = 128
swizzled_for(operand, (128, 64), (1, 0), bits=16)      # vec = 8, perPhase = 1, maxPhase = 8
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.layouts.distributed import DotOperand, NvidiaMma
from tilewright.layouts.errors import LayoutError
from tilewright.layouts.keys import Bases
from tilewright.layouts.shared import NvmmaShared, SwizzledShared
from tilewright.layouts.walk import shape_of_block

Shape = tuple[int, ...]
SWIZZLES = (128, 64, 32)
"""The widths of swizzling, in bytes."""
SWIZZLED_ROWS = 8
ROW_BITS = 1024
"""Bits that one pass over shared memory moves: all banks together."""


def nvmma_for(
    shape: Sequence[int], order: Sequence[int], *, bits: int, cga: Bases = (), fp4_padded: bool = False
) -> NvmmaShared:
    """The layout that `wgmma`, `tcgen05` and TMA use for a tile.

    Args:
        shape: of the tile.
        order: the dimensions, the one that changes fastest first.
        bits: of one element.
        cga: how blocks share the tile.
        fp4_padded: every second group of eight bytes is a hole.
    """
    inside = shape_of_block(shape, cga)
    row_bytes = inside[order[0]] * (2 if fp4_padded else 1) * bits // 8
    swizzle = 0
    if len(shape) > 1 and prod(inside[dim] for dim in order[1:]) >= SWIZZLED_ROWS:
        swizzle = next((width for width in SWIZZLES if row_bytes and row_bytes % width == 0), 0)
    return NvmmaShared(swizzle, len(order) > 1 and order[0] == 0, bits, fp4_padded, len(shape), cga)


def swizzled_for(
    operand: DotOperand, shape: Shape, order: Shape, *, bits: int, cga: Bases = (), transposed: bool = False
) -> SwizzledShared:
    """The layout from which an operand of a dot is loaded without bank conflicts.

    Args:
        operand: the layout in registers.
        shape: of the tile.
        order: the dimensions of the buffer, the one that changes fastest first.
        bits: of one element.
        cga: how blocks share the tile.
        transposed: the buffer is read with its dimensions exchanged.

    Raises:
        LayoutError: the dot is one for AMD.
    """
    if not isinstance(operand.parent, NvidiaMma):
        if operand.parent.name.startswith("ttg.amd"):
            raise LayoutError(f"there is no swizzled layout for operands of #{operand.parent.name}")
        return SwizzledShared(1, 1, 1, order, cga)
    return swizzled_rows(operand.op_index, operand.k_width, shape, order, bits=bits, cga=cga, transposed=transposed)


def swizzled_rows(
    op_index: int, width: int, shape: Shape, order: Shape, *, bits: int, cga: Bases = (), transposed: bool = False
) -> SwizzledShared:
    """The layout as of `swizzled_for`, for all that is read as operand `op_index`, `width` elements along k at once."""
    row = shape_of_block(shape, cga)[order[0]]
    per_phase = max(ROW_BITS // (bits * row), 1)
    # One ldmatrix reads eight rows of 4 * width elements; the instruction for f64 takes four rows.
    vector, rows = 4 * width, 4 if bits == 64 else 8
    inner = len(order) - 1 if op_index == 0 else len(order) - 2
    if transposed != (order[0] != inner):
        vector, rows = rows, vector
    phases = max(min(rows, ROW_BITS // (vector * bits)), 1)
    return SwizzledShared(vector, per_phase, max(phases // per_phase, 1), order, cga)


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
    """The division among CTAs of a tile of another rank, whose first dimensions have extent 1."""
    return tuple((*(0,) * (rank - len(row)), *row[max(0, len(row) - rank) :]) for row in cga)
