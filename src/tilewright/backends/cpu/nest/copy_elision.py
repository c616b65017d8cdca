"""A dot operand that is a plain load is read where it lies, when it lies there as a matrix.

    if rows are `stride` apart, columns are neighbours, and no lane is masked off:   use (pointer, stride)
    else:                                                                            copy, use (buffer, columns)

The test is a few scalar instructions per tile; the copy would be one more pass over the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, ActiveLaneBound, Address, Affine, Index, Uniform
from tilewright.backends.cpu.nest.loads import needed_mask, single_address
from tilewright.backends.cpu.nest.loops import emit_nest
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.arith import IntegerRemainder
from tilewright.dialects.cpu import Nest, Write, tile_of
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_shape import Broadcast, Trans
from tilewright.ir.core import Value, defining


class Matrix(NamedTuple):
    """The place of a tile in memory.

    Attributes:
        pointer: the address of the first element.
        stride, step: the distances of rows and of columns in elements.
        pitch: the distance of rows in the program's memory, where the next tile lies, too.
        depth: how many rows or columns along the product's k are not masked off; None where that was not asked for.
    """

    pointer: str
    stride: str
    step: str = "1"
    pitch: str = "0"
    depth: str | None = None


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


def emit_elided(
    w: LlvmWriter, nest: Nest, scalar: Callable[[Value], str], *, may_step: bool, depth_axis: int | None
) -> Matrix:
    """Write the test and the copy for `nest`, which only copies a load; returns where the tile lies then.

    Args:
        w: the writer that the code goes to.
        nest: the cpu.nest.
        scalar: gives the LLVM value of a scalar or buffer.
        may_step: columns need not be neighbours to be read where they lie.
        depth_axis: the axis along which lanes may be masked off behind some depth.
    """
    write = _write_of(nest)
    buffer = write.buffer
    rows, columns = tile_of(buffer.type).shape
    source = source_of(write.value)
    assert source is not None, "only copies of loads are elided"
    c = Context(w, scalar, 1)
    c.insertion_points, c.fast = [w.open_section()], True
    found = _in_place(c, source, (rows, columns), may_step=may_step, depth_axis=depth_axis)
    whole = None if depth_axis is None else str((rows, columns)[depth_axis])
    if found is None:
        emit_nest(w, nest, scalar)
        return Matrix(scalar(buffer), str(columns), pitch=str(columns), depth=whole)
    condition = "true"
    for guard in c.assumed():
        condition = guard if condition == "true" else w.emit(f"and i1 {condition}, {guard}")
    if condition == "true":
        return found
    with w.branch(condition) as branch, branch.otherwise():
        emit_nest(w, nest, scalar, optimize_size=not _wraps(nest), wraps=_wraps(nest))
    pointer = branch.join("ptr", found.pointer, scalar(buffer))
    stride = branch.join("i64", found.stride, str(columns))
    step = "1" if found.step == "1" else branch.join("i64", found.step, "1")
    depth = found.depth if found.depth is None else branch.join("i64", found.depth, str(whole))
    return Matrix(pointer, stride, step, found.pitch, depth)


def _write_of(nest: Nest) -> Write:
    return next(op for op in nest.body if isinstance(op, Write))


def _wraps(nest: Nest) -> bool:
    """Whether there are ranges that may wrap. Rows where they do not are many, and far cheaper to copy."""
    return any(isinstance(op, IntegerRemainder) for op in nest.body)


def _in_place(
    c: Context, source: Source, extents: tuple[int, int], *, may_step: bool, depth_axis: int | None
) -> Matrix | None:
    """The place of the tile in memory, if the guards hold; None if no guard helps."""
    pointer, mask = source.load.pointer, source.load.mask
    by_row, by_column = source.index_of((LANE, ZERO)), source.index_of((ZERO, LANE))
    lines, depth = list[tuple[Address, Affine]](), None if depth_axis is None else str(extents[depth_axis])
    for axis, index in enumerate((by_row, by_column)):
        c.extent = extents[axis]
        lane = evaluate(c, pointer, index)
        if not isinstance(lane, Address) or not isinstance(lane.offset, Affine) or lane.offset.local:
            return None
        lines.append((lane, lane.offset))
        if mask is None:
            continue
        if not _is_separable(mask):
            return None
        on = evaluate(c, mask, index)
        if axis == depth_axis and isinstance(on, ActiveLaneBound):
            depth = c.intrinsic(on.level, "llvm.smin", on.below, str(depth))
        elif needed_mask(c, on) is not None:
            return None
    (row, along_rows), (column, along_columns) = lines
    if (along_columns.stride != "1" and not may_step) or row.base != column.base:
        return None
    first = single_address(c, row._replace(offset=Uniform(along_rows.base, along_rows.level)))
    return Matrix(first.name, along_rows.stride, along_columns.stride, along_rows.stride, depth)


def _is_separable(mask: Value) -> bool:
    """Whether the mask is a conjunction of conditions on single axes: on everywhere if on at two edges."""
    op = mask.op
    if op is None:
        return True
    if op.name == "arith.andi" or isinstance(op, Broadcast):
        return all(_is_separable(v) for v in op.operands)
    return sum(extent > 1 for extent in mask.type.shape or ()) <= 1


def next_tile(w: LlvmWriter, nest: Nest, scalar: Callable[[Value], str]) -> str | None:
    """The address of the first element that `nest` copies, for other values of the scalars around it."""
    source = source_of(_write_of(nest).value)
    if source is None:
        return None
    c = Context(w, scalar, 1)
    c.insertion_points = [w.open_section()]
    lane = evaluate(c, source.load.pointer, (ZERO, ZERO))
    if not isinstance(lane, Address | Uniform):
        return None
    return single_address(c, lane).name


def element_bytes(nest: Nest) -> int:
    """Bytes of one element of the tile that `nest` copies."""
    return max(1, tile_of(_write_of(nest).buffer.type).element.bits // 8)
