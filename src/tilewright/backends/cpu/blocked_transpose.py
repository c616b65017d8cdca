"""Nests that store along another axis than they load get a version that goes through registers in square blocks.

    "cpu.nest"() …           →     scf.if %all_on {
      tt.store %p, %x, %mask          "cpu.nest"() <{…, square = 16}> … tt.store %p, %x {cpu.value_is_outer}
                                   } else {
                                      "cpu.nest"() …  tt.store %p, %x, %mask
                                   }

Element by element, each store to a column would touch another cache line. Where a mask is off somewhere in the tile, or
stores are redirected, the nest runs row by row; so in its version there are neither masks nor buffers to fall back to.
"""

from __future__ import annotations

from tilewright.backends.cpu.alignment import Tags, operand_tags
from tilewright.backends.cpu.costs import LOADS, SINKS, STORES, is_tile, tile_operand
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.loop_facts import STORE_IS_OUTER, VALUE_IS_OUTER
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Address, Affine
from tilewright.backends.cpu.nest_masks import all_on, context_of, without_masks
from tilewright.backends.cpu.version_strides import put_version
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import GuardedStore, Nest, Read
from tilewright.dialects.tt_memory import Store
from tilewright.ir.attributes import UNIT, Attribute
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import PointerType, TensorType, i1
from tilewright.transforms.functions import functions_of


def blocked_transpose(module: Op, target: Target) -> bool:
    """Give the nests of `module` (ttcir) a version by square blocks where they gain by it; returns whether any does."""
    found = False
    for function in functions_of(module):
        nests = [op for op in function.walk() if isinstance(op, Nest) and not op.optimize_size]
        b = LoopBuilder(Block(), entry=function.body)
        for nest in nests:
            b.location, lanes = nest.location, _side(nest, target)
            facts = _facts(b, nest, target, lanes) if lanes else {}
            with b.into(Block()):
                if any(facts.values()) and (condition := _condition(b, nest, target)) is not None:
                    put_version(b, nest, condition, _by_squares(nest, lanes, facts))
                    found = True
    return found


def _condition(b: LoopBuilder, nest: Nest, target: Target) -> Value | None:
    """Whether `nest` may go by squares, an i1 in front of it; None where that cannot be told there."""
    condition = all_on(context_of(b, nest, target, 1), nest)
    if condition is None:
        for op in b.block:
            op.drop_uses()
    elif nest.overlaps is not None:
        condition = b.select(nest.overlaps, b.constant(0, i1), condition)
    return condition


def _facts(b: LoopBuilder, nest: Nest, target: Target, lanes: int) -> dict[Op, dict[str, Attribute]]:
    """The attributes of each store of `nest`."""
    dropped = Block()  # what is built here tells where neighbours are
    with b.into(dropped):
        c = context_of(b, nest, target, lanes)
        found: dict[Op, dict[str, Attribute]] = {op: _facts_of(c, op) for op in nest.body if isinstance(op, STORES)}
    for op in dropped:
        op.drop_uses()
    return found


def _by_squares(nest: Nest, lanes: int, facts: dict[Op, dict[str, Attribute]]) -> Nest:
    """A copy of `nest` all of whose masks are on, and whose stores are not redirected."""
    marks = [facts[op] for op in nest.body if isinstance(op, STORES)]
    copy = without_masks(nest)
    copy.mark(square=lanes)
    for store, mark in zip([op for op in copy.body if isinstance(op, STORES)], marks, strict=True):
        store.attributes |= mark
    return copy


def _side(nest: Nest, target: Target) -> int:
    """W of square blocks, 0 where there are none."""
    sinks = [op for op in nest.body if isinstance(op, SINKS)]
    if nest.mode != "rows" or not nest.outer or not all(isinstance(r, STORES) for r in sinks):
        return 0
    values = [tile_operand(r) for r in sinks]
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


def _facts_of(c: Context, store: Store | GuardedStore) -> dict[str, Attribute]:
    """Whether its value and its addresses have neighbours along the last outer axis, not the inner one."""
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
    holds = {
        VALUE_IS_OUTER: votes[inner - 1] > votes[inner],
        STORE_IS_OUTER: _axis_of_neighbours(c, pointer) == inner - 1,
    }
    return {name: UNIT for name, is_so in holds.items() if is_so}


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
