"""A dot operand that is a plain load is read where it lies, when it lies there as a matrix.

    if rows are `stride` apart, columns are neighbours, and no lane is masked off:   use (pointer, stride)
    else:                                                                            copy, use (buffer, columns)

The test is a few scalar instructions per tile; the copy would be one more pass over the tile. Rows that lie anywhere
are always copied, up to where the product ends; the copy runs along rows if it turns out that columns lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
from tilewright.dialects.cpu import Nest, Write, buffer_type, tile_of
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_shape import Trans
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.types import TensorType, i32, i64


class Matrix(NamedTuple):
    """The place of a tile in memory.

    Attributes:
        pointer: the address of the first element.
        stride, step: the distances of rows and of columns in elements.
        pitch: the distance of rows in the program's memory, where the next tile lies, too; None: rows lie anywhere.
        depth: how many rows or columns along the product's k count, one at least; None where that was not asked for.
    """

    pointer: Value
    stride: Scalar
    step: Scalar = 1
    pitch: Scalar | None = None
    depth: Scalar | None = None


class End(NamedTuple):
    """Conditions on one axis of a tile that end it, and its partner in a product: behind them both are zero."""

    axis: int
    conditions: Sequence[Value]


class Needed(NamedTuple):
    """How many rows (axis 0) or columns (1) of a tile are read, from the first one on; perhaps none."""

    axis: int
    number: Value


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
    may_swap: bool = False,
    end: End | None,
    needed: Needed | None = None,
) -> Matrix:
    """Build the test and the copy for `nest`, which only copies a load; returns where the tile lies then.

    Args:
        builder: where the ops go.
        nest: the cpu.nest.
        target: the machine.
        scalar: what a scalar or buffer is.
        may_step: columns need not be neighbours to be read where they lie.
        may_swap: columns of the copy need not be neighbours either.
        end: where the product ends; None where it takes the whole tile.
        needed: how much of the tile is read; None: all of it.
    """
    write = _write_of(nest)
    rows, columns = tile_of(write.buffer.type).shape
    source = source_of(write.value)
    assert source is not None, "only copies of loads are elided"
    c = Context(builder, target, scalar, 1)
    ends: list[Scalar] = [rows, columns]
    if needed is not None:
        ends[needed.axis] = needed.number
    depth: Scalar | None = None
    if end is not None:
        ends[end.axis] = depth = _depth(c, source, end, (rows, columns)[end.axis])
    found = _in_place(c, source, (rows, columns), may_step=may_step, end=end, depth=depth, needed=needed)
    copy = partial(lower_nest, builder, target=target, scalar=scalar)
    if found is None:
        swapped = _column_step(c, source) if may_swap and min(rows, columns) > 1 else 1
        return _copied(c, nest, copy, ends, depth, swapped)
    buffer = pointer(c.buffer(write.buffer))
    conditions = c.assumed()
    if not conditions:
        return found
    with builder.branch(c.all_of(conditions)) as branch, branch.otherwise():
        short = None if found.step == 1 else ends  # whole vectors are copied so fast that more code does not pay
        copy(nest, optimize_size=not _wraps(nest), wraps=_wraps(nest), ends=short)

    def either(there: Scalar, here: Scalar) -> Value:
        return branch.join(builder.number(there), builder.number(here))

    step = 1 if found.step == 1 else either(found.step, 1)
    return Matrix(branch.join(found.pointer, buffer), either(found.stride, columns), step, found.pitch, depth)


def _copied(
    c: Context, nest: Nest, copy: Callable[..., object], ends: Sequence[Scalar], depth: Scalar | None, step: Scalar
) -> Matrix:
    """The place of a tile that is copied up to `ends`: column by column where columns lie `step`, not 1, apart."""
    write = _write_of(nest)
    rows, columns = tile_of(write.buffer.type).shape
    if step == 1:
        copy(nest, ends=ends)
        return Matrix(pointer(c.buffer(write.buffer)), columns, depth=depth)
    b, swapped = c.b, _swapped(c.b, nest)
    place = pointer(c.buffer(write.buffer))
    with b.branch(b.compare("eq", b.number(step), 1)) as branch:
        with branch.then():
            copy(nest, ends=ends)
        with branch.otherwise():
            copy(swapped, ends=ends[::-1])
    swapped.erase()
    return Matrix(
        place, branch.join(b.number(columns), b.number(1)), branch.join(b.number(1), b.number(rows)), depth=depth
    )


def _swapped(b: LoopBuilder, nest: Nest) -> Nest:
    """A nest that copies the transpose of what `nest` copies, to the same place."""
    copy = nest.clone()
    write = _write_of(copy)
    rows, columns = tile_of(write.buffer.type).shape
    type = TensorType((columns, rows), write.value.type.scalar)
    order: dict[str, Attribute] = {"order": DenseArray(i32, (1, 0))}
    trans = copy.body.insert(Op.create("tt.trans", (write.value,), (type,), order, location=nest.location), write)
    assert write.buffer.op is not None, "what is copied lies in a buffer"
    buffer = b.emit("cpu.alloc", (), buffer_type(type), dict(write.buffer.op.attributes))
    write.set_operands([trans.result, buffer])
    copy.attributes["outer"] = DenseArray(i64, (columns,))
    return copy


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
    end: End | None,
    depth: Scalar | None,
    needed: Needed | None,
) -> Matrix | None:
    """The place of the tile in memory up to its end at `depth`, if the guards hold; None if no guard helps."""
    place, mask = source.load.pointer, source.load.mask
    by_row, by_column = source.index_of((LANE, ZERO)), source.index_of((ZERO, LANE))
    lines = list[tuple[Address, Affine]]()
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
        if depth is not None and end is not None and axis == end.axis and isinstance(on, ActiveLaneBound):
            c.assume(c.compare("sge", on.below, depth, i64, on.level))
        elif needed is not None and axis == needed.axis and isinstance(on, ActiveLaneBound):
            some: Scalar = c.binary("arith.maxsi", needed.number, 1, i64, on.level)  # the first tells where depth ends
            if axis == 1 and lane.offset.stride != 1:
                dense = c.compare("eq", lane.offset.stride, 1, i64, on.level)
                some = c.select(dense, some, extents[axis], i64, on.level)  # what is packed is packed whole
            c.assume(c.compare("sge", on.below, some, i64, on.level))
        elif needed_mask(c, on) is not None:
            return None
    (row, along_rows), (column, along_columns) = lines
    if (along_columns.stride != 1 and not may_step) or row.base != column.base:
        return None
    first = single_address(c, row._replace(offset=Uniform(along_rows.base, along_rows.level)))
    return Matrix(pointer(first), along_rows.stride, along_columns.stride, along_rows.stride, depth)


def _depth(c: Context, source: Source, end: End, extent: int) -> Scalar:
    """How many of `extent` rows or columns stand in front of the end, 1 at least."""
    depth: Scalar = extent
    index = source.index_of((LANE, ZERO) if end.axis == 0 else (ZERO, LANE))
    c.extent = extent
    ends = [on.below for on in (evaluate(c, v, index) for v in end.conditions) if isinstance(on, ActiveLaneBound)]
    for below in ends:
        depth = c.binary("arith.minsi", below, depth, i64, 0)
    return c.binary("arith.maxsi", depth, 1, i64, 0) if ends else depth


def _column_step(c: Context, source: Source) -> Scalar:
    """The distance of neighbours in a row, in elements; 1 where they do not lie at one distance."""
    lane = evaluate(c, source.load.pointer, source.index_of((ZERO, LANE)))
    if isinstance(lane, Address) and isinstance(lane.offset, Affine) and not lane.offset.local:
        return lane.offset.stride
    return 1


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
