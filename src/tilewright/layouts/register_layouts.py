"""The linear layouts of tiles in registers: blocked, linear, and what matrix instructions take and give."""

from __future__ import annotations

from tilewright.layouts.distributed import AmdMfma, AmdWmma, Blocked, DotOperand, Linear, NvidiaMma
from tilewright.layouts.errors import demand
from tilewright.layouts.keys import Bases
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.layouts.walk import REGISTERS, Walk, column_major, operand_order, row_major, without_steps_along


def blocked_layout(layout: Blocked, shape: tuple[int, ...]) -> LinearLayout:
    walk = Walk(len(shape))
    for name, counts in zip(
        REGISTERS, (layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta), strict=True
    ):
        walk.along_all(name, counts, layout.order)
    return walk.fitted(shape, layout.cga, layout.order, drop_copies=True)


def _mma_tile(walk: Walk, rows: int, columns: int, width: int, axes: tuple[int, int]) -> None:
    """Add what one NVIDIA instruction gives or takes: four lanes of `width` registers in a row, eight rows of lanes."""
    outer, inner = axes
    walk.along("register", inner, width)
    walk.along("lane", inner, 4)
    walk.along("lane", outer, 8)
    walk.along("register", outer, rows // 8)
    walk.along("register", inner, columns // (width * 4))


def demand_known(layout: NvidiaMma) -> None:
    """There are linear layouts of versions 2 and 3, for instructions of 8 rows and columns or more."""
    rows, columns = layout.instr_shape[-2:] if layout.version_major == 2 else layout.instr_shape[:2]
    shape = list(layout.instr_shape)
    demand(
        rows % 8 == 0 and columns % 8 == 0 and rows and columns, f"nvidia_mma has no instruction for the shape {shape}"
    )
    demand(layout.version_major in (2, 3), f"nvidia_mma version {layout.version_major} has no linear layout")
    demand(layout.version_major == 2 or layout.rank == 2, "nvidia_mma version 3 is for 2 dimensions")


def nvidia_mma_layout(layout: NvidiaMma, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    demand_known(layout)
    walk = Walk(rank)
    rows, columns = layout.instr_shape[-2:] if layout.version_major == 2 else layout.instr_shape[:2]
    _mma_tile(walk, rows, columns, 2, (rank - 2, rank - 1))
    walk.along_all("warp", layout.warps_per_cta, _warp_order(layout))
    return walk.fitted(shape, layout.cga, row_major(rank))


def _warp_order(layout: NvidiaMma) -> tuple[int, ...]:
    """`wgmma` deals out its four warps along the rows, so there rows come first."""
    return column_major(layout.rank) if layout.version_major == 3 else row_major(layout.rank)


def nvidia_operand_layout(layout: DotOperand, parent: NvidiaMma, shape: tuple[int, ...]) -> LinearLayout:
    demand_known(parent)
    rank, width = len(shape), layout.k_width
    inner, outer = operand_order(layout.op_index, rank)[:2]
    rows = parent.instr_shape[-2 if parent.version_major == 2 else 0]
    # The instruction for f64 has eight rows, and takes half of what the others do along k.
    steps = 4 if rows == 8 else 8
    walk = Walk(rank)
    _mma_tile(walk, rows if layout.op_index == 0 else 8, width * steps, width, (outer, inner))
    walk.along_all("warp", parent.warps_per_cta, _warp_order(parent), copies_along=inner)
    return walk.fitted(shape, without_steps_along(parent.cga, inner), operand_order(layout.op_index, rank))


def scale_layout(shape: tuple[int, ...], op_index: int, warps_per_cta: tuple[int, ...], cga: Bases) -> LinearLayout:
    """The scales of a factor of `mma.sync` on sm_120: a row each, a thread has all of it, four or two threads the same.

    The tile of `shape` has what is not summed over as rows, and the groups of what is as columns.
    """
    walk = Walk(2)
    walk.along("register", 1, shape[1])
    pair = [8, 0] if op_index == 0 else [0, 0]  # sixteen rows of the left factor for each eight columns of the right
    walk.rows["lane"] += [pair, [0, 0], [1, 0], [2, 0], [4, 0]]
    walk.covers((16 if op_index == 0 else 8, 1))
    outer, inner = warps_per_cta if op_index == 0 else warps_per_cta[::-1]
    walk.along_all("warp", (outer, inner), (1, 0) if op_index == 0 else (0, 1), copies_along=1)
    return walk.fitted(shape, cga, (1, 0))


def blocked_operand_layout(layout: DotOperand, parent: Blocked, shape: tuple[int, ...]) -> LinearLayout:
    """Every thread has all of what is summed over."""
    inner = operand_order(layout.op_index, len(shape))[0]
    walk = Walk(len(shape))
    sizes = [shape[axis] if axis == inner else size for axis, size in enumerate(parent.size_per_thread)]
    walk.along_all("register", sizes, parent.order)
    walk.along_all("lane", parent.threads_per_warp, parent.order, copies_along=inner)
    walk.along_all("warp", parent.warps_per_cta, parent.order, copies_along=inner)
    return walk.fitted(shape, without_steps_along(parent.cga, inner), parent.order)


def linear_layout(layout: Linear, shape: tuple[int, ...]) -> LinearLayout:
    walk = Walk(len(shape))
    for name, rows in zip(REGISTERS, (layout.register, layout.lane, layout.warp), strict=True):
        walk.rows[name] += rows
    walk.rows["block"] = list(layout.block)
    walk.size = [
        2 ** max(row[axis].bit_length() for rows in layout.all_bases for row in rows) for axis in range(len(shape))
    ]
    return walk.fitted(shape, (), _repeat_order(layout), drop_copies=True)


def _repeat_order(layout: Linear) -> tuple[int, ...]:
    """The dimensions in the order in which registers, then lanes and warps, first walk them; then the rest."""
    seen = [axis for rows in layout.all_bases[:1] for row in rows for axis, step in enumerate(row) if step]
    return tuple(dict.fromkeys((*seen, *row_major(layout.rank))))


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
