"""A dot operand that is a plain load is read where it lies, when it lies there as a matrix.

    if rows are `stride` apart, columns are neighbours, and no lane is masked off:   use (pointer, stride)
    else:                                                                            copy, use (buffer, columns)

The test is a few scalar instructions per tile; the copy would be one more pass over the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.backends.cpu.costs import conjuncts
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import (
    LANE,
    ZERO,
    ActiveLaneBound,
    Address,
    Affine,
    Index,
    Scalar,
    Uniform,
    pointer,
)
from tilewright.backends.cpu.nest.loads import needed_mask, single_address
from tilewright.backends.cpu.nest.loops import lower_nest
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.arith import IntegerRemainder
from tilewright.dialects.cpu import Nest, Write, tile_of
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_shape import Trans
from tilewright.ir.core import Value, defining
from tilewright.ir.types import i64


class Matrix(NamedTuple):
    """The place of a tile in memory.

    Attributes:
        pointer: the address of the first element.
        stride, step: the distances of rows and of columns in elements.
        pitch: the distance of rows in the program's memory, where the next tile lies, too.
        depth: how many rows or columns along the product's k are not masked off; None where that was not asked for.
    """

    pointer: Value
    stride: Scalar
    step: Scalar = 1
    pitch: Scalar = 0
    depth: Scalar | None = None


class Source(NamedTuple):
    """The load behind an operand, and how its axes are permuted in the buffer."""

    load: Load
    order: tuple[int, ...]

    def index_of(self, index: Index) -> Index:
        """The index into the loaded tile for `index` into the buffer."""
        moved = [index[0]] * len(index)
        for position, axis in enumerate(self.order):
            moved[axis] = index[position]
        return tuple(moved)


def elided_write(nest: Nest) -> Value | None:
    """The buffer of a nest that only copies a load for a dot; None for other nests."""
    return next((op.buffer for op in nest.body if isinstance(op, Write) and op.elide_copy), None)


def source_of(value: Value) -> Source | None:
    """The load that `value` is, perhaps transposed; None for what is computed."""
    order, trans = tuple(range(len(value.type.shape or ()))), defining(value, Trans)
    if trans is not None:
        order, value = trans.order, trans.source
    load = defining(value, Load)
    return Source(load, order) if load is not None and len(order) == 2 else None


def lower_elided(
    builder: LoopBuilder,
    nest: Nest,
    target: Target,
    scalar: Callable[[Value], Scalar],
    *,
    may_step: bool,
    depth_axis: int | None,
    rows_read: Value | None = None,
) -> Matrix:
    """Build the test and the copy for `nest`, which only copies a load; returns where the tile lies then.

    Args:
        builder: where the ops go.
        nest: the cpu.nest.
        target: the machine.
        scalar: what a scalar or buffer is.
        may_step: columns need not be neighbours to be read where they lie.
        depth_axis: the axis along which lanes may be masked off behind some depth.
        rows_read: how many rows are read, from 0 on; None: all of them.
    """
    write = _write_of(nest)
    rows, columns = tile_of(write.buffer.type).shape
    source = source_of(write.value)
    assert source is not None, "only copies of loads are elided"
    c = Context(builder, target, scalar, 1)
    found = _in_place(c, source, (rows, columns), may_step=may_step, depth_axis=depth_axis, rows_read=rows_read)
    whole = None if depth_axis is None else (rows, columns)[depth_axis]
    buffer = pointer(c.buffer(write.buffer))
    if found is None:
        lower_nest(builder, nest, target, scalar)
        return Matrix(buffer, columns, pitch=columns, depth=whole)
    conditions = c.assumed()
    if not conditions:
        return found
    with builder.branch(c.all_of(conditions)) as branch, branch.otherwise():
        lower_nest(builder, nest, target, scalar, optimize_size=not _wraps(nest), wraps=_wraps(nest))

    def either(there: Scalar, here: Scalar) -> Value:
        return branch.join(builder.number(there), builder.number(here))

    step = 1 if found.step == 1 else either(found.step, 1)
    depth = None if found.depth is None or whole is None else either(found.depth, whole)
    place = branch.join(found.pointer, buffer)
    return Matrix(place, either(found.stride, columns), step, found.pitch, depth)


def _write_of(nest: Nest) -> Write:
    return next(op for op in nest.body if isinstance(op, Write))


def _wraps(nest: Nest) -> bool:
    """Whether there are ranges that may wrap. Rows where they do not are many, and far cheaper to copy."""
    return any(isinstance(op, IntegerRemainder) for op in nest.body)


def _in_place(
    c: Context,
    source: Source,
    extents: tuple[int, int],
    *,
    may_step: bool,
    depth_axis: int | None,
    rows_read: Value | None,
) -> Matrix | None:
    """The place of the tile in memory, if the guards hold; None if no guard helps."""
    place, mask = source.load.pointer, source.load.mask
    by_row, by_column = source.index_of((LANE, ZERO)), source.index_of((ZERO, LANE))
    lines = list[tuple[Address, Affine]]()
    depth: Scalar | None = None if depth_axis is None else extents[depth_axis]
    for axis, index in enumerate((by_row, by_column)):
        c.extent, c.fast = extents[axis], Guarded(c.lane_level)
        lane = evaluate(c, place, index)
        if not isinstance(lane, Address) or not isinstance(lane.offset, Affine) or lane.offset.local:
            return None
        lines.append((lane, lane.offset))
        if mask is None:
            continue
        if not _is_separable(mask):
            return None
        on = evaluate(c, mask, index)
        if depth is not None and axis == depth_axis and isinstance(on, ActiveLaneBound):
            depth = c.binary("arith.minsi", on.below, depth, i64, on.level)
        elif rows_read is not None and axis == 0 and isinstance(on, ActiveLaneBound):
            some = c.binary("arith.maxsi", rows_read, 1, i64, on.level)  # the first row tells where the depth ends
            c.assume(c.compare("sge", on.below, some, i64, on.level))
        elif needed_mask(c, on) is not None:
            return None
    (row, along_rows), (column, along_columns) = lines
    if (along_columns.stride != 1 and not may_step) or row.base != column.base:
        return None
    first = single_address(c, row._replace(offset=Uniform(along_rows.base, along_rows.level)))
    return Matrix(pointer(first), along_rows.stride, along_columns.stride, along_rows.stride, depth)


def _is_separable(mask: Value) -> bool:
    """Whether the mask is a conjunction of conditions on single axes: on everywhere if on at two edges."""
    conditions = [part for part in conjuncts(mask) if part.op is not None]
    return all(sum(extent > 1 for extent in part.type.shape or ()) <= 1 for part in conditions)


def next_tile(builder: LoopBuilder, nest: Nest, target: Target, scalar: Callable[[Value], Scalar]) -> Value | None:
    """The address of the first element that `nest` copies, for other values of the scalars around it."""
    source = source_of(_write_of(nest).value)
    if source is None:
        return None
    c = Context(builder, target, scalar, 1)
    lane = evaluate(c, source.load.pointer, (ZERO, ZERO))
    return pointer(single_address(c, lane)) if isinstance(lane, Address | Uniform) else None


def element_bytes(nest: Nest) -> int:
    """Bytes of one element of the tile that `nest` copies."""
    return max(1, tile_of(_write_of(nest).buffer.type).element.bits // 8)
