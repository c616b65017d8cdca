"""Nests that store along another axis than they load get a version by square blocks, transposed in registers.

    "cpu.nest"() …           →     scf.if %all_on {
      tt.store %p, %x, %mask          "cpu.nest"() <{…, square = 16}> … tt.store %p, %x {cpu.value_is_outer}
                                   } else {
                                      "cpu.nest"() …  tt.store %p, %x, %mask
                                   }

Element by element, each store to a column would touch another cache line. If a mask is off somewhere in the tile, or
stores are redirected, the nest runs row by row; so its version has neither masks nor fall-back buffers. If some loads
lie across others, those that disagree with the store are transposed. If only the launch tells which one lies across, by
a stride of 1, there is a version for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from tilewright.backends.cpu.alignment import Tags, operand_tags
from tilewright.backends.cpu.costs import ACCESSES, LOADS, SINKS, STORES, is_tile, tile_operand
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.loop_facts import STORE_IS_OUTER, TRANSPOSED, VALUE_IS_OUTER
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Address, Affine
from tilewright.backends.cpu.nest_masks import all_on, context_of, without_masks
from tilewright.backends.cpu.strides import steps_along
from tilewright.backends.cpu.version_strides import put_version
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import GuardedStore, Nest, Read
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.attributes import UNIT, Attribute
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.ir.types import PointerType, TensorType, i1
from tilewright.transforms.functions import functions_of

MANY_LOADS = 2
"""Max loads of a nest that may each lie across the others if known only at launch."""
SIDE_AT_LAUNCH = 8
"""Max rows of squares if known only at launch: 16 run as fast, and compile in twice the time."""
Facts = dict[Op, dict[str, Attribute]]
"""The attributes that loads and stores get in the version by squares."""


def blocked_transpose(module: Op, target: Target) -> bool:
    """Version nests of `module` (ttcir) by transposed square blocks where that pays; returns whether any were."""
    found = False
    for function in functions_of(module):
        nests = [op for op in function.ops_of(Nest) if not op.optimize_size]
        b, kept = LoopBuilder(Block(), entry=function.body), set(function.body.ops())
        for nest in nests:
            b.location, lanes = nest.location, _side(nest, target)
            if not lanes:
                continue
            if facts := _facts(nest, lanes):
                found |= _put_blocks(b, nest, nest, facts, lanes, ())
                continue
            for strides in _strides_across(nest):
                version = nest.clone({stride: b.constant(1, stride.type) for stride in strides})
                side = min(lanes, SIDE_AT_LAUNCH)
                facts = _facts(version, side)
                if facts and _put_blocks(b, nest, version, facts, side, strides):
                    found = True
                else:
                    for op in version.walk():
                        op.drop_uses()
        _erase_unused(op for op in function.body.ops() if op not in kept)
    return found


def _erase_unused(ops: Iterable[Op]) -> None:
    """Erase the constants among `ops` that versions would have needed which were not put in place."""
    for op in [op for op in ops if op.definition.constant and not any(result.uses for result in op.results)]:
        op.erase()


def _put_blocks(b: LoopBuilder, nest: Nest, version: Nest, facts: Facts, lanes: int, strides: Sequence[Value]) -> bool:
    """Let `version` go by squares in place of `nest` where all masks are on and `strides` are 1.

    Returns False if that cannot be decided before the nest.
    """
    with b.into(Block()):
        condition = _condition(b, version)
        if condition is None:
            return False
        condition = reduce(b.and_, [b.compare("eq", stride, 1) for stride in strides], condition)
        put_version(b, nest, condition, _by_blocks(version, lanes, facts))
    return True


def _strides_across(nest: Nest) -> Iterator[list[Value]]:
    """The scalars that, if they are 1, make one load go along the last outer axis and all else along the inner one.

    They are arguments known at launch, as for an operand that the caller has transposed.
    """
    accesses = nest.body.ops_of(ACCESSES)
    inner = len(nest.outer)
    steps = [(op, steps_along(op.pointer)) for op in accesses if len(op.pointer.type.shape or ()) == inner + 1]
    loads = [op for op, _ in steps if isinstance(op, Load)]
    if len(loads) > MANY_LOADS:
        return
    for load in loads:
        near = [step.get(inner - (op is load)) for op, step in steps]
        if all(step == 1 or isinstance(step, Value) for step in near):
            yield list(dict.fromkeys(step for step in near if isinstance(step, Value)))


def _condition(b: LoopBuilder, nest: Nest) -> Value | None:
    """Whether `nest` may go by squares, an i1 before it; None if that cannot be decided there."""
    condition = all_on(context_of(b, nest, 1), nest)
    if condition is None:
        for op in b.block:
            op.drop_uses()
    elif nest.overlaps is not None:
        condition = b.select(nest.overlaps, b.constant(0, i1), condition)
    return condition


def _facts(nest: Nest, lanes: int) -> Facts:
    """The attributes of stores and loads of `nest` by squares; none where these would gain nothing."""
    dropped = LoopBuilder(Block())  # what is built here tells where neighbours are
    c = context_of(dropped, nest, lanes)
    found: Facts = {}
    for op in nest.body:
        if isinstance(op, STORES):
            found |= _facts_of(c, op)
    for op in dropped.block:
        op.drop_uses()
    return {op: facts for op, facts in found.items() if facts}


def _by_blocks(nest: Nest, lanes: int, facts: Facts) -> Nest:
    """A copy of `nest` all of whose masks are on, and whose stores are not redirected."""
    marks = [facts.get(op, {}) for op in nest.body.ops_of(ACCESSES)]
    copy = without_masks(nest)
    copy.mark(square=lanes)
    for op, mark in zip(copy.body.ops_of(ACCESSES), marks, strict=True):
        op.attributes |= mark
    return copy


def _side(nest: Nest, target: Target) -> int:
    """W of square blocks, 0 where there are none."""
    sinks = nest.body.ops_of(SINKS)
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


def _facts_of(c: Context, store: Store | GuardedStore) -> Facts:
    """Whether its value and its addresses have neighbours along the last outer axis, not the inner one.

    Where some of the loads that the value is computed of have them along one axis and some along the other, those that
    do not agree with the store are transposed.
    """
    shape = store.value.type.shape or ()
    inner, across = len(shape) - 1, len(shape) - 2
    votes: dict[int, list[Op]] = {inner: [], across: []}
    for load, tags in _loads_of(store):
        axis = _axis_of_neighbours(c, load.buffer if isinstance(load, Read) else load.pointer)
        tag = tags[axis] if axis is not None else None
        if tag is not None and tag in votes:
            votes[tag].append(load)
    store_is_outer = _axis_of_neighbours(c, store.pointer) == across
    whole = {axis: [load for load in loads if _is_whole(load, store)] for axis, loads in votes.items()}
    is_mixed = bool(whole[inner] and whole[across])
    value_is_outer = store_is_outer if is_mixed else len(votes[across]) > len(votes[inner])
    transposed = whole[inner if store_is_outer else across] if is_mixed else []
    holds = {VALUE_IS_OUTER: value_is_outer, STORE_IS_OUTER: store_is_outer}
    return {
        store: {name: UNIT for name, is_so in holds.items() if is_so},
        **{load: {TRANSPOSED: UNIT} for load in transposed},
    }


def _loads_of(store: Store | GuardedStore) -> Iterator[tuple[Load | Read, Tags]]:
    """The loads of the nest that the stored value is computed of, and by which axes they are asked for."""
    seen: set[tuple[Value, Tags]] = set()
    stack: list[tuple[Value, Tags]] = [(store.value, tuple(range(len(store.value.type.shape or ()))))]
    while stack:
        v, tags = stack.pop()
        op = v.op
        if op is None or op.parent is not store.parent or (v, tags) in seen:
            continue
        seen.add((v, tags))
        if not isinstance(op, LOADS):
            stack.extend(operand_tags(op, tags))
        elif is_tile(v):
            yield op, tags


def _is_whole(load: Op, store: Store | GuardedStore) -> bool:
    """Whether `load` is from memory, and has an element for each of those that are stored, at the same place."""
    is_there = isinstance(load, Load) and load.result.type.shape == store.value.type.shape
    return is_there and _is_word(tile_type(load.results[0]))


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
