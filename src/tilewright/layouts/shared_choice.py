"""The layouts of buffers in shared memory: chosen for a tile, or inferred for views that move no data.

nvmma_for((128, 64), (1, 0), bits=16)                  # swizzlingByteWidth = 128
swizzled_for(operand, (128, 64), (1, 0), bits=16)      # vec = 8, perPhase = 1, maxPhase = 8
reshaped_buffer(nvmma, (32, 1, 4, 64), (128, 64))      # nvmma again if rows stay whole, else #ttg.shared_linear
transposed_from(layout, (64, 32), (1, 0))              # the layout whose transposition is `layout`
contiguous_offsets(layout, (2, 512))                   # 1024: the elements that are contiguous in memory and tile
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from tilewright.ir.types import Shape
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.distributed import DotOperand, NvidiaMma
from tilewright.layouts.encoding import Encoding, Shared
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.inference import inverse, transposed
from tilewright.layouts.keys import Bases
from tilewright.layouts.queries import num_ctas
from tilewright.layouts.shared import NvmmaShared, PaddedShared, SharedLinear, SwizzledShared
from tilewright.layouts.walk import dimension_names, shape_of_block

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
        shape: extents of the tile.
        order: its dimensions, the one that changes fastest first.
        bits: of an element.
        cga: the division among CTAs.
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
        operand: the layout that the operand is loaded to.
        shape, order, bits, cga: as for `nvmma_for`.
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
    """The layout of `swizzled_for`, where the operand is known by its number only.

    Args:
        op_index: 0 for the left operand, 1 for the right one.
        width: the elements along k that a thread loads at once.
        shape, order, bits, cga, transposed: as for `swizzled_for`.
    """
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


@cache
def reshaped_buffer(layout: Shared, shape: Shape, result: Shape) -> Shared:
    """The layout of a buffer of `shape` that is seen as one of shape `result`.

    Raises:
        LayoutError: the layout has no linear layout for this shape.
    """
    outs = tuple(zip(dimension_names(len(result)), result, strict=True))
    found = to_linear_layout(layout, shape).reshape_outs(outs)
    if isinstance(layout, PaddedShared):
        return PaddedShared(layout.pads, found.bases["offset"], found.bases["block"])
    if isinstance(layout, NvmmaShared) and num_ctas(layout) == 1:
        inner = 0 if layout.transposed else -1
        again = with_rank(layout, len(result))
        if shape[inner] == result[inner] and _linear(again, result) == found:
            return again
    return SharedLinear(found.bases["offset"], found.bases["block"], layout.alignment)


def _linear(layout: Shared, shape: Shape) -> object:
    """The linear layout; None if there is none."""
    try:
        return to_linear_layout(layout, shape)
    except LayoutError:
        return None


def transposed_from(layout: Encoding, shape: Shape, axes: Sequence[int]) -> Encoding:
    """The layout of a buffer that, transposed by `axes`, has `layout` and `shape`."""
    return transposed(layout, shape, inverse(axes))


@cache
def contiguous_offsets(layout: Shared, shape: Shape) -> int:
    """The number of elements that follow each other both in memory and in the tile, row by row."""
    demand(not isinstance(layout, PaddedShared), "padded elements do not follow each other")
    columns = to_linear_layout(layout, shape).columns["offset"]
    count = 0
    while count < len(columns) and columns[count] == 1 << count:
        count += 1
    return 1 << count
