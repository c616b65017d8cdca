"""Queries of layouts by passes: order of dimensions, elements per thread, threads per warp, part of one CTA.

    layout = Blocked((1, 8), (8, 4), (4, 1), (1, 0))
    order(layout, (64, 128))                  # (1, 0)
    elements_per_thread(layout, (64, 128))    # (2, 32)
    contiguous_per_thread(layout, (64, 128))  # (1, 8)
    threads_per_warp(layout, (64, 128))       # (8, 4)

Answers are per dimension, unless stated otherwise. They come from the linear layout of a tile of this shape: a
dimension that is shorter than the layout has fewer threads than `threadsPerWarp` says.

A buffer in shared memory takes more elements than its tile has if its layout has padding:

    padded_elements(#ttg.padded_shared<[256:+8] {…}>, (16, 32))     520: 512 elements, and 8 after the first 256
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import prod

from tilewright.ir.types import Shape
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.distributed import DotOperand, Linear, Slice
from tilewright.layouts.encoding import Distributed, Encoding, Shared
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.keys import Bases
from tilewright.layouts.shared import (
    NvmmaShared,
    PaddedShared,
    PartitionedShared,
    SharedLinear,
    SwizzledShared,
    TensorMemory,
    TensorMemoryScales,
)
from tilewright.layouts.walk import column_major, operand_order, row_major, without_steps_along


def moving_dimension(row: Sequence[int]) -> int | None:
    """The dimension in which a step moves; None for one that does not move.

    Raises:
        LayoutError: it moves in several dimensions.
    """
    moving = [dim for dim, step in enumerate(row) if step]
    demand(len(moving) <= 1, f"{list(row)} moves in more than one dimension")
    return moving[0] if moving else None


def extents_of(rows: Iterable[Sequence[int]], rank: int, *, with_copies: bool = False) -> Shape:
    """The number of values that the bits with these steps have along each dimension.

    With copies, a bit that does not move counts for the dimension of the bit before it.
    """
    extents, last = [1] * rank, 0
    for row in rows:
        dim = moving_dimension(row)
        if dim is not None:
            last = dim
        if dim is not None or with_copies:
            extents[last] *= 2
    return tuple(extents)


def order_of(rows: Iterable[Sequence[int]], default: Sequence[int]) -> Shape:
    """The dimensions in the order in which these steps first move in them; the others as in `default`.

    A swizzled step moves in several dimensions; the first of them counts.
    """
    moving = (next((dim for dim, step in enumerate(row) if step), None) for row in rows)
    return tuple(dict.fromkeys((*(dim for dim in moving if dim is not None), *default)))


# Registers, lanes and warps of a tile


@cache
def order(layout: Distributed, shape: Shape) -> Shape:
    """The dimensions, the one that registers walk first first."""
    return order_of(to_linear_layout(layout, shape).bases["register"], row_major(len(shape)))


@cache
def thread_order(layout: Distributed, shape: Shape) -> Shape:
    """The dimensions, the one that lanes walk first first."""
    return order_of(to_linear_layout(layout, shape).bases["lane"], order(layout, shape))


@cache
def warp_order(layout: Distributed, shape: Shape) -> Shape:
    """The dimensions, the one that warps walk first first."""
    return order_of(to_linear_layout(layout, shape).bases["warp"], order(layout, shape))


@cache
def memory_order(layout: Distributed, shape: Shape) -> Shape:
    """The order in which a buffer for the tile should be: that of the threads, where one has one element of a row."""
    threads = thread_order(layout, shape)
    return threads if elements_per_thread(layout, shape)[threads[0]] == 1 else order(layout, shape)


@cache
def elements_per_thread(layout: Distributed, shape: Shape) -> Shape:
    """The number of registers of one thread, with copies."""
    return extents_of(to_linear_layout(layout, shape).bases["register"], len(shape), with_copies=True)


def total_elements_per_thread(layout: Distributed, shape: Shape) -> int:
    """The number of registers of one thread in all dimensions, with copies."""
    return to_linear_layout(layout, shape).in_size("register")


def unique_elements_per_thread(layout: Distributed, shape: Shape) -> int:
    """The number of registers of one thread in all dimensions, without bits that change nothing."""
    return to_linear_layout(layout, shape).without_zeros("register").in_size("register")


@cache
def contiguous_per_thread(layout: Distributed, shape: Shape) -> Shape:
    """The number of neighbours along each dimension that a thread has in consecutive registers."""
    rows = to_linear_layout(layout, shape).bases["register"]
    extents, index = [1] * len(shape), 0
    for dim in order(layout, shape):
        while index < len(rows) and all(
            step == (extents[dim] if at == dim else 0) for at, step in enumerate(rows[index])
        ):
            extents[dim] *= 2
            index += 1
    return tuple(extents)


@cache
def threads_per_warp(layout: Distributed, shape: Shape) -> Shape:
    """The number of lanes along each dimension that have different elements."""
    return extents_of(to_linear_layout(layout, shape).bases["lane"], len(shape))


@cache
def warps_per_cta(layout: Distributed, shape: Shape) -> Shape:
    """The number of warps along each dimension that have different elements."""
    return extents_of(to_linear_layout(layout, shape).bases["warp"], len(shape))


def num_warps(layout: Distributed) -> int:
    """The number of warps of a block."""
    match layout:
        case Slice(parent=parent) | DotOperand(parent=parent):
            return num_warps(parent)
        case Linear():
            return 1 << len(layout.warp)
    warps = getattr(layout, "warps_per_cta", None)
    return prod(warps) if warps is not None else 1 << len(getattr(layout, "warps", ()))


# Blocks


@cache
def block_steps(layout: Encoding) -> Bases:
    """The step of each bit of the block: in elements for linear layouts, in parts of the tile for all others."""
    found: Bases
    match layout:
        case Slice(dim=dim, parent=parent):
            found = tuple(row[:dim] + row[dim + 1 :] for row in block_steps(parent))
        case DotOperand(op_index=index, parent=parent):
            found = without_steps_along(block_steps(parent), operand_order(index, layout.rank)[0])
        case PartitionedShared(partition_layout=inner):
            found = block_steps(inner)
        case Linear(block=block) | SharedLinear(block=block) | PaddedShared(block=block):
            found = block
        case _:
            found = getattr(layout, "cga", ())
    return found


@cache
def cga_layout(layout: Encoding) -> Bases:
    """The division of a tile among the blocks of a cluster: the step of each bit of the block, in parts of the tile."""
    steps = block_steps(layout)
    if not steps:
        return ()
    # In a linear layout the smallest step along a dimension is one part: blocks have parts that follow one another.
    part = [min((row[axis] for row in steps if row[axis]), default=1) for axis in range(layout.rank)]
    return tuple(tuple(step // size for step, size in zip(row, part, strict=True)) for row in steps)


def num_ctas(layout: Encoding) -> int:
    """The number of blocks that share a tile, or have copies of it."""
    return 1 << len(block_steps(layout))


def cta_split(layout: Encoding) -> Shape:
    """The number of blocks among which each dimension is divided."""
    if isinstance(layout, TensorMemory | TensorMemoryScales) and not layout.cga:
        return (layout.split_m, layout.split_n)
    return extents_of(block_steps(layout), layout.rank)


def ctas_per_cga(layout: Encoding) -> Shape:
    """The number of blocks along each dimension, with those that have copies."""
    return extents_of(block_steps(layout), layout.rank, with_copies=True)


def shape_per_cta(layout: Encoding, shape: Sequence[int]) -> Shape:
    """The part of a tile that one block has.

    The shape may have other leading dimensions than the layout, as that of a buffer with one slot for each stage has.
    """
    split = cta_split(layout)
    missing = len(shape) - len(split)
    split = (1,) * missing + split if missing >= 0 else split[-missing:]
    return tuple(size // min(size, parts) for size, parts in zip(shape, split, strict=True))


# Buffers


def buffer_order(layout: Shared) -> Shape:
    """The dimensions of a buffer, the one that changes fastest first."""
    match layout:
        case SwizzledShared():
            return layout.order
        case PaddedShared():
            return layout.dimensions
        case NvmmaShared(transposed=transposed):
            return column_major(layout.rank) if transposed else row_major(layout.rank)
        case SharedLinear(offset=offset):
            return order_of(offset, row_major(layout.rank))
        case PartitionedShared(partition_layout=inner):
            return buffer_order(inner)
    raise LayoutError(f"#{layout.name} has no order")


# Two layouts


def equivalent(left: Encoding, right: Encoding, shape: Shape) -> bool:
    """Every element of a tile of this shape lies in the same places in both layouts.

    Buffers are compared by what they are called when their kind has no linear layout.
    """
    if left is right:
        return True
    try:
        return to_linear_layout(left, shape) == to_linear_layout(right, shape)
    except LayoutError:
        return False


def is_expensive_view(source: Distributed, source_shape: Shape, result: Distributed, result_shape: Shape) -> bool:
    """A reshape that may reorder elements would still have to move some between these layouts."""
    before, after = to_linear_layout(source, source_shape), to_linear_layout(result, result_shape)
    return before.free_masks() != after.free_masks() or before.in_size("register") != after.in_size("register")


def is_legal_cat(operand: Distributed, operand_shape: Shape, result: Distributed, result_shape: Shape) -> bool:
    """`tt.cat` can put the registers of its operands one behind the other."""
    wanted = unique_elements_per_thread(operand, operand_shape) * 2
    return wanted == unique_elements_per_thread(result, result_shape)


def stored_shape(layout: Encoding, shape: Sequence[int]) -> tuple[int, ...]:
    """The extents of one CTA's part of a buffer as it is stored; leading dimensions may be copies of a buffer."""
    extents = list(shape)
    if isinstance(layout, NvmmaShared) and layout.fp4_padded:
        extents[0 if layout.transposed else -1] *= 2
    return shape_per_cta(layout, extents)


def padded_elements(layout: Encoding, shape: Sequence[int]) -> int:
    """The elements of a buffer with holes, up to the last one that is used; 0 for layouts without holes."""
    if isinstance(layout, PartitionedShared):
        return padded_elements(layout.partition_layout, shape)
    if not isinstance(layout, PaddedShared):
        return 0
    elements = prod(shape_per_cta(layout, shape))
    # No hole follows the last element.
    return elements + sum((elements - 1) // interval * padding for interval, padding in layout.pads)
