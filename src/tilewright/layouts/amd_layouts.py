"""The linear layouts of what AMD's matrix instructions take and give."""

from __future__ import annotations

from tilewright.layouts.distributed import AmdMfma, AmdWmma, DotOperand
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.walk import Walk, operand_order, row_major, without_steps_along

MFMA_LANES = 64
WMMA_TILE = 16
"""Rows and columns of what one instruction gives."""


def mfma_layout(layout: AmdMfma, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    axes = rank - 2, rank - 1
    rows, columns = layout.instr_shape[:2]
    height = 1 if layout.element_bit_width == 64 else 4
    tiles = rows * columns // (MFMA_LANES * height)
    # Registers go down a column, lanes along a row; transposed, the other way round.
    down, along = reversed(axes) if layout.is_transposed else axes
    extent = rows if layout.is_transposed else columns
    walk = Walk(rank)
    walk.along("register", down, height)
    walk.along("lane", along, extent)
    walk.along("lane", down, MFMA_LANES // extent)
    if tiles > 0:
        walk.along("register", down, tiles)
    down, along = axes
    tiles_per_warp = layout.tiles_per_warp or (1,) * rank
    walk.along("register", along, tiles_per_warp[along])
    walk.along("warp", along, layout.warps_per_cta[along])
    # What is left of a row comes before the next row of tiles.
    inside = shape[along] // (columns * layout.warps_per_cta[along] * tiles_per_warp[along])
    walk.along("register", along, max(inside, 1))
    walk.along("register", down, tiles_per_warp[down])
    walk.along("warp", down, layout.warps_per_cta[down])
    if rank == 3:
        walk.along("warp", 0, layout.warps_per_cta[0])
    return walk.fitted(shape, layout.cga, row_major(rank))


def mfma_operand_layout(layout: DotOperand, parent: AmdMfma, shape: tuple[int, ...]) -> LinearLayout:
    rank, width = len(shape), layout.k_width
    order = operand_order(layout.op_index, rank)
    inner, outer = order[:2]
    rows = parent.instr_shape[layout.op_index]
    walk = Walk(rank)
    walk.along("register", inner, width)
    walk.along("lane", outer, rows)
    walk.along("lane", inner, MFMA_LANES // rows)
    if rows == MFMA_LANES:
        walk.along("register", inner, 16)
    if shape[inner] > walk.size[inner]:
        walk.along("register", inner, shape[inner] // walk.size[inner])
    walk.along("register", outer, (parent.tiles_per_warp or (1,) * rank)[outer])
    walk.along_all("warp", parent.warps_per_cta, row_major(rank), copies_along=inner)
    return walk.fitted(shape, parent.cga, order)


def _cta_extent(layout: AmdWmma, axis: int) -> int:
    """The number of instructions' tiles that `registers` and `warps` cover along `axis`."""
    return 1 << max((row[axis].bit_length() for row in (*layout.registers, *layout.warps)), default=0)


def wmma_layout(layout: AmdWmma, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    down, along = (rank - 1, rank - 2) if layout.is_transposed else (rank - 2, rank - 1)
    walk = Walk(rank)
    if layout.version == 1:
        walk.along("lane", along, WMMA_TILE)
        walk.along("lane", down, 2)
        walk.along("register", down, 8)
    else:
        walk.along("register", down, 8)
        walk.along("lane", along, WMMA_TILE)
        walk.along("lane", down, 2)
        if layout.instr_shape[0] == 2 * WMMA_TILE:
            walk.along("register", down, 2)
    walk.steps("register", layout.registers)
    walk.steps("warp", layout.warps)
    walk.covers([_cta_extent(layout, axis) for axis in range(rank)])
    return walk.fitted(shape, layout.cga, row_major(rank))


def wmma_operand_layout(layout: DotOperand, parent: AmdWmma, shape: tuple[int, ...]) -> LinearLayout:
    rank, width = len(shape), layout.k_width
    order = operand_order(layout.op_index, rank)
    inner, outer = order[:2]
    rows, columns, depth = parent.instr_shape
    swapped = parent.is_transposed and rows != columns
    extent = rows if (layout.op_index == 0) != swapped else columns
    walk = Walk(rank)
    walk.along("register", inner, width)
    walk.along("lane", outer, WMMA_TILE)
    if parent.version == 1:
        walk.copies("lane", 2)
        walk.along("register", inner, max(depth // (2 * width), 1))
    else:
        walk.along("lane", inner, 2)
        walk.along("register", inner, max(depth // (2 * width), 1))
    walk.along("register", outer, extent // WMMA_TILE)
    rows_outside = without_steps_along(parent.registers, inner)
    walk.steps("register", filter(any, rows_outside))
    walk.steps("warp", without_steps_along(parent.warps, inner))
    walk.covers([1 if axis == inner else _cta_extent(parent, axis) for axis in range(rank)])
    return walk.fitted(shape, without_steps_along(parent.cga, inner), order)
