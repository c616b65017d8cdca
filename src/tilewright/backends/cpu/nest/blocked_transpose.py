"""Tiles that are stored along another axis than they are loaded: square blocks are transposed in registers.

    for 16 rows, for 16 columns:       16 vectors along a row each, transposed, are 16 vectors along a column each

Element by element, each store to a column would touch another cache line. Where a mask is off somewhere in the tile, or
stores are redirected, the nest runs row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from tilewright.backends.cpu.alignment import Tags, operand_tags
from tilewright.backends.cpu.costs import ACCESSES, LOADS, STORES, conjuncts, is_tile, tile_operand, where_of
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.nest.context import Context
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
    Vector,
)
from tilewright.backends.cpu.nest.stores import Act, write
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import GuardedStore, Read
from tilewright.dialects.tt_memory import Store
from tilewright.ir.core import Block, Value
from tilewright.ir.types import PointerType, TensorType, i1, i64


class TransposedStore(NamedTuple):
    """A store, and whether its value and its addresses have neighbours along the last outer axis, not the inner one."""

    store: Store | GuardedStore
    value_is_outer: bool
    store_is_outer: bool


# ------------------------------------------------------------------ which nests


def transposed_stores(
    nest: Nest, target: Target, scalar: Callable[[Value], Scalar]
) -> tuple[list[TransposedStore], int]:
    """The stores of `nest` to handle by square blocks, and the lanes of a side; ([], 0) where nothing is gained."""
    lanes = _side(nest, target)
    if not lanes:
        return [], 0
    dropped = Block()  # what is built here tells where neighbours are
    c = Context(LoopBuilder(dropped), target, scalar, len(nest.outer) + 1)
    c.lanes = lanes
    found = [_transposed_store(c, store) for store in nest.sinks if isinstance(store, STORES)]
    for op in dropped:
        op.drop_uses()
    gains = any(transposition.value_is_outer or transposition.store_is_outer for transposition in found)
    return (found, lanes) if gains else ([], 0)


def _side(nest: Nest, target: Target) -> int:
    """W of square blocks, 0 where there are none."""
    if nest.mode != "rows" or not nest.outer or not all(isinstance(r, STORES) for r in nest.sinks):
        return 0
    values = [tile_operand(r) for r in nest.sinks]
    types = [v.type for v in values if isinstance(v.type, TensorType)]
    if not types or len(types) < len(values):
        return 0
    shape = types[0].shape
    if any(t.shape != shape or not _is_word(t) for t in types) or shape[:-1] != nest.outer:
        return 0
    lanes = min(16, target.vector_bits // max(t.bits for t in types))
    return lanes if min(shape[-2:]) >= lanes else 0


def _is_word(tile: TensorType) -> bool:
    return not isinstance(tile.element, PointerType) and tile.element is not i1 and tile.bits <= 64


def _transposed_store(c: Context, store: Store | GuardedStore) -> TransposedStore:
    pointer, value = store.pointer, store.value
    inner = len(value.type.shape or ()) - 1
    votes = {inner: 0, inner - 1: 0}
    seen: set[tuple[Value, Tags]] = set()
    stack: list[tuple[Value, Tags]] = [(value, tuple(range(inner + 1)))]
    while stack:
        v, tags = stack.pop()
        op = v.op
        if op is None or op.parent is not store.parent or (v, tags) in seen:
            continue
        seen.add((v, tags))
        if not isinstance(op, LOADS):
            stack.extend(operand_tags(op, tags))
            continue
        where = op.buffer if isinstance(op, Read) else op.pointer
        axis = _axis_of_neighbours(c, where) if is_tile(v) else None
        tag = tags[axis] if axis is not None else None
        if tag is not None and tag in votes:
            votes[tag] += 1
    return TransposedStore(store, votes[inner - 1] > votes[inner], _axis_of_neighbours(c, pointer) == inner - 1)


def _axis_of_neighbours(c: Context, pointer: Value) -> int | None:
    """The axis along which elements are neighbours in memory; buffers are dense."""
    shape = pointer.type.shape
    if shape is None:
        return -1
    for axis in reversed(range(len(shape))):
        c.extent = shape[axis]
        lane = evaluate(c, pointer, tuple(LANE if a == axis else ZERO for a in range(len(shape))))
        offset = lane.offset if isinstance(lane, Address) and shape[axis] > 1 else ZERO
        if isinstance(offset, Affine) and offset.stride == 1:
            return axis
    return None


def all_on(c: Context, nest: Nest) -> Value | None:
    """Whether no mask of `nest` is off anywhere, an i1 in front of the nest; None where that cannot be told there."""
    conditions = []
    for op in nest.body:
        masks = where_of(op)[1:] if isinstance(op, ACCESSES) else []
        for part in [part for mask in masks for part in conjuncts(mask)]:
            shape = part.type.shape or ()
            long = [axis for axis, extent in enumerate(shape) if extent > 1]
            if len(long) > 1:
                return None
            c.extent = max(shape, default=1)
            lane = evaluate(c, part, tuple(LANE if axis in long else ZERO for axis in range(len(shape))))
            if isinstance(lane, ActiveLaneBound) and lane.level == 0:
                conditions.append(c.compare("sge", lane.below, c.extent, i64, 0))
            elif isinstance(lane, Uniform) and lane.level == 0:
                conditions.append(c.value(lane.value, i1))
            else:
                return None
    every = dict.fromkeys(conditions) or [c.b.constant(1, i1)]
    return reduce(lambda a, b: c.binary("arith.andi", a, b, i1, 0), every)


# ------------------------------------------------------------------ one block


def store_block(c: Context, transposition: TransposedStore, outer: Index, row: Uniform, column: Uniform) -> list[Act]:
    """Compute the W × W elements from (row, column) on; what is returned stores them."""
    along = [(*outer, _next(c, row, i), LANE) for i in range(c.lanes)]
    across = [(*outer, Affine(row.value, 1, row.level, local=True), _next(c, column, i)) for i in range(c.lanes)]
    place, value = transposition.store.pointer, transposition.store.value
    element = value.type.scalar
    vectors = [
        c.as_vector(evaluate(c, value, index), element) for index in (across if transposition.value_is_outer else along)
    ]
    if transposition.value_is_outer != transposition.store_is_outer:
        vectors = [Vector(column, c.depth) for column in transposed(c.b, [v.value for v in vectors])]
    places = [evaluate(c, place, index) for index in (across if transposition.store_is_outer else along)]
    return [write(c, address, v, None, element) for address, v in zip(places, vectors, strict=True)]


def _next(c: Context, start: Uniform, number: int) -> Uniform:
    return Uniform(c.add(start.value, number, i64, start.level), start.level)


def transposed(b: LoopBuilder, rows: list[Value]) -> list[Value]:
    """The columns of the square matrix with these rows, a power of two of them: log2 W rounds exchange halves."""
    count = len(rows)
    for half in (1 << bit for bit in range(count.bit_length() - 1)):
        low = [lane if not lane & half else lane - half + count for lane in range(count)]
        high = [lane + half if not lane & half else lane + count for lane in range(count)]
        exchanged = list(rows)
        for i in range(count):
            if not i & half:
                x, y = rows[i], rows[i + half]
                exchanged[i], exchanged[i + half] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        rows = exchanged
    return rows
