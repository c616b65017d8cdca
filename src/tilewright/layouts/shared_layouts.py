"""The linear layouts of buffers in shared memory: from offset (in elements) and block to places in the tile."""

from __future__ import annotations

from math import prod

from tilewright.layouts.encoding import Encoding
from tilewright.layouts.errors import demand
from tilewright.layouts.keys import Bases
from tilewright.layouts.linear_layout import LinearLayout, from_bases
from tilewright.layouts.shared import AmdRotatingShared, NvmmaShared, PaddedShared, SharedLinear, SwizzledShared
from tilewright.layouts.walk import Walk, dimension_names, shape_of_block, shown

OFFSETS = ("offset",)
TMA_BOX = 256
"""Max extent of what one TMA instruction copies."""


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
