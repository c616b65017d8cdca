"""Every layout as a linear layout: from register, lane, warp and block (or offset, or row and col) to the tile.

layout = encoding("#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>")
to_linear_layout(layout, (256,)).apply(register=5, lane=1)     # (133,)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

from tilewright.ir.errors import counted
from tilewright.ir.types import Shape
from tilewright.layouts.distributed import (
    AmdMfma,
    AmdWmma,
    Blocked,
    DotOperand,
    GenericLinear,
    Linear,
    NvidiaMma,
    Slice,
)
from tilewright.layouts.encoding import Encoding
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.keys import Bases, power_of_two
from tilewright.layouts.linear_layout import LinearLayout, from_bases, identity_1d
from tilewright.layouts.shared import (
    AmdRotatingShared,
    NvmmaShared,
    PaddedShared,
    PartitionedShared,
    SharedLinear,
    SwizzledShared,
    TensorMemory,
    TensorMemoryScales,
)
from tilewright.layouts.tensor_memory import scales_layout, tensor_memory_layout
from tilewright.layouts.walk import (
    REGISTERS,
    Walk,
    column_major,
    dimension_names,
    operand_order,
    row_major,
    shape_of_block,
    shown,
    without_steps_along,
)


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


def nvidia_mma_layout(layout: NvidiaMma, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    demand_known(layout)
    demand(layout.version_major == 2 or rank == 2, "nvidia_mma version 3 gives tiles of 2 dimensions")
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
    rows = parent.instr_shape[rank - 2]  # Triton's choice for version 3 as well, whose shape is always (M, N, K)
    # The instruction for f64 has eight rows, and takes half of what the others do along k.
    steps = 4 if rows == 8 else 8
    walk = Walk(rank)
    _mma_tile(walk, rows if layout.op_index == 0 else 8, width * steps, width, (outer, inner))
    walk.along_all("warp", parent.warps_per_cta, _warp_order(parent), copies_along=inner)
    return walk.fitted(shape, without_steps_along(parent.cga, inner), operand_order(layout.op_index, rank))


def scale_layout(shape: tuple[int, ...], op_index: int, warps_per_cta: tuple[int, ...], cga: Bases) -> LinearLayout:
    """The scales of a factor of `mma.sync` on sm_120: a row each, a thread has all of it, four or two threads the same.

    The tile of `shape` has M or N as rows, and the groups of what is as columns.
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
    """Every thread has all of K."""
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


OFFSETS = ("offset",)
TMA_BOX = 256
"""Max extent of what one TMA instruction copies."""
IMAGE_BOX = 1024
"""Max number of pixels that one TMA instruction copies of images."""


def swizzled_layout(layout: SwizzledShared, shape: tuple[int, ...]) -> LinearLayout:
    rank, order = len(shape), layout.order
    walk = Walk(rank, OFFSETS)
    inside = shape if isinstance(layout, AmdRotatingShared) else shape_of_block(shape, layout.cga)
    column = order[0]
    walk.along("offset", column, inside[column])
    if rank > 1:
        step = 1
        while step < inside[order[1]]:
            row = [0] * rank
            row[order[1]] = step
            row[column] = layout.vec * _phase(layout, step) % inside[column]
            walk.rows["offset"].append(row)
            step *= 2
        walk.size[order[1]] = inside[order[1]]
    for axis in order[2:]:
        walk.along("offset", axis, inside[axis])
    return walk.fitted(shape, layout.cga, order)


def _phase(layout: SwizzledShared, row: int) -> int:
    phase = row // layout.per_phase % layout.max_phase
    if isinstance(layout, AmdRotatingShared):
        phase ^= row // layout.max_phase // layout.per_phase % layout.max_phase
    return phase


def tma_box(layout: NvmmaShared, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The box that one TMA instruction copies of a block's part of `shape`, in elements as they are packed in the tile.

    Raises:
        LayoutError: the rows are shorter than the swizzle.
    """
    contiguous = 0 if layout.transposed else len(shape) - 1
    packing = 2 if layout.fp4_padded else 1
    box = [min(size * packing if axis == contiguous else size, TMA_BOX) for axis, size in enumerate(shape)]
    if layout.swizzling_byte_width:
        wanted = 8 * layout.swizzling_byte_width // layout.element_bit_width
        demand(
            box[contiguous] >= wanted,
            f"swizzlingByteWidth = {layout.swizzling_byte_width} needs {wanted // packing} elements along dimension "
            f"{contiguous}, but a block of the tile has {shape[contiguous]}",
        )
        box[contiguous] = wanted
    box[contiguous] //= packing
    return tuple(box)


def image_box(layout: NvmmaShared, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The box of pixels and channels that one TMA instruction copies of images: all pixels of a block's part.

    Raises:
        LayoutError: there are too many of them, or the rows are shorter than the swizzle.
    """
    pixels = shape[0]
    demand(pixels <= IMAGE_BOX, f"a block of images has {IMAGE_BOX} pixels at most, and this one {pixels}")
    return pixels, tma_box(layout, shape)[1]


def nvmma_layout(layout: NvmmaShared, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    box = tma_box(layout, shape_of_block(shape, layout.cga))
    axes = (*range(1, rank), 0) if layout.transposed else tuple(range(rank))
    walk = Walk(rank, OFFSETS)
    if layout.swizzling_byte_width:
        sizes = prod(box[:-1]), box[-1]
        rows = _nvmma_core(layout, *(reversed(sizes) if layout.transposed else sizes))
        outs = tuple((dimension_names(rank)[axis], box[axis]) for axis in axes)
        reshaped = LinearLayout({"offset": rows}, outs).transpose_outs(dimension_names(rank))
        walk.rows["offset"] += reshaped.bases["offset"]
        walk.size = list(box)
    else:
        for axis in reversed(axes):
            walk.along("offset", axis, box[axis])
    return walk.fitted(shape, layout.cga, tuple(range(rank)))


def _nvmma_core(layout: NvmmaShared, rows: int, columns: int) -> tuple[int, ...]:
    """The steps in a matrix of `rows` by `columns`: tiles of eight swizzled rows, below and then beside each other."""
    width = 8 * layout.swizzling_byte_width // layout.element_bit_width
    demand(rows >= 8, f"#{layout.name} needs 8 rows or more, but a block of the tile has {rows}")
    packing = 2 if layout.fp4_padded else 1
    inside = [_packed_column(layout, step) for step in powers(1, width)]
    swizzles = [layout.vec * (row // layout.per_phase % layout.max_phase) for row in powers(1, 8)]
    below = [
        row * columns + _packed_column(layout, swizzle) for row, swizzle in zip(powers(1, 8), swizzles, strict=True)
    ]
    return (*inside, *below, *(row * columns for row in powers(8, rows)), *powers(width // packing, columns))


def powers(start: int, end: int) -> list[int]:
    """The powers of two from `start` to below `end`."""
    return [1 << bit for bit in range(start.bit_length() - 1, end.bit_length() - 1)]


def _packed_column(layout: NvmmaShared, column: int) -> int:
    """`column` without the holes of fp4Padded, where of 16 offsets only 8 hold elements."""
    return column // 16 * 8 + column % 8 if layout.fp4_padded else column


def explicit_layout(layout: Encoding, offset: Bases, block: Bases, shape: tuple[int, ...]) -> LinearLayout:
    covered = tuple(2 ** max(row[axis].bit_length() for row in (*offset, *block)) for axis in range(len(shape)))
    demand(covered == shape, f"#{layout.name} covers {shown(covered)}, not {shown(shape)}")
    outs = tuple(zip(dimension_names(len(shape)), shape, strict=True))
    return from_bases({"offset": offset, "block": block}, outs)


def padded_layout(layout: PaddedShared, shape: tuple[int, ...]) -> LinearLayout:
    """The layout before the padding."""
    if not layout.order:
        return explicit_layout(layout, layout.offset, layout.block, shape)
    walk = Walk(len(shape), OFFSETS)
    walk.along_all("offset", shape_of_block(shape, layout.block), layout.order)
    return walk.fitted(shape, layout.block, layout.order)


def shared_linear_layout(layout: SharedLinear, shape: tuple[int, ...]) -> LinearLayout:
    return explicit_layout(layout, layout.offset, layout.block, shape)


def slice_layout(layout: Slice, shape: Shape) -> LinearLayout:
    """The parent's layout of a tile that is one wide in `dim`; registers that hold copies go away."""
    dim = layout.dim
    parent = to_linear_layout(layout.parent, (*shape[:dim], 1, *shape[dim:]))
    # The dimension has no bits, so the columns stay as they are.
    outs = tuple(zip(dimension_names(len(shape)), shape, strict=True))
    return LinearLayout(parent.columns, outs).without_zeros("register")


def partitioned_layout(layout: PartitionedShared, shape: Shape) -> LinearLayout:
    axis = layout.partition_dim
    pieces = layout.num_partitions * layout.num_groups
    demand(shape[axis] >= pieces, f"{pieces} pieces of dimension {axis}, but its extent is {shape[axis]}")
    piece = tuple(size // pieces if dim == axis else size for dim, size in enumerate(shape))
    base = to_linear_layout(layout.partition_layout, piece)
    name = dimension_names(len(shape))[axis]
    parts = identity_1d(layout.num_partitions, "partition", name)
    groups = identity_1d(layout.num_groups, "offset", name)
    return base * parts * groups


def operand_layout(layout: DotOperand, shape: Shape) -> LinearLayout:
    """An operand of a dot, by the kind of the dot's result."""
    return _OPERANDS[type(layout.parent)](layout, layout.parent, shape)


_OPERANDS: dict[type[Encoding], Callable[[DotOperand, Any, Shape], LinearLayout]] = {
    Blocked: blocked_operand_layout,
    NvidiaMma: nvidia_operand_layout,
    AmdMfma: mfma_operand_layout,
    AmdWmma: wmma_operand_layout,
}
_LAYOUTS: dict[type[Encoding], Callable[[Any, Shape], LinearLayout]] = {
    Blocked: blocked_layout,
    Slice: slice_layout,
    DotOperand: operand_layout,
    NvidiaMma: nvidia_mma_layout,
    AmdMfma: mfma_layout,
    AmdWmma: wmma_layout,
    Linear: linear_layout,
    GenericLinear: linear_layout,
    SwizzledShared: swizzled_layout,
    AmdRotatingShared: swizzled_layout,
    NvmmaShared: nvmma_layout,
    PaddedShared: padded_layout,
    PartitionedShared: partitioned_layout,
    SharedLinear: shared_linear_layout,
    TensorMemory: tensor_memory_layout,
    TensorMemoryScales: scales_layout,
}


@cache
def to_linear_layout(layout: Encoding, shape: Shape) -> LinearLayout:
    """The map from each register of each thread (or each offset in memory) to its place in a tile of `shape`.

    Raises:
        LayoutError: the layout does not fit the shape, or its kind has no linear layout.
    """
    demand(shape and all(map(power_of_two, shape)), f"every extent must be a power of two, not {shown(shape)}")
    demand(
        len(shape) == layout.rank,
        f"#{layout.name} is for {counted(layout.rank, 'dimension')}, but the shape {shown(shape)} has {len(shape)}",
    )
    convert = _LAYOUTS.get(type(layout))
    if convert is None:
        raise LayoutError(f"#{layout.name} has no linear layout")
    found = convert(layout, shape)
    demand(found.is_surjective, f"{layout.text} leaves elements of {shown(shape)} without a place")
    return found
