"""Ops that only move elements: each evaluates its operand at another index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tilewright.analysis.gather_distance import distance_of_indices
from tilewright.backends.cpu.alignment import axis_of, axis_of_new
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.integers import widened
from tilewright.backends.cpu.nest.lane_values import (
    LANE,
    ZERO,
    Affine,
    Index,
    Lane,
    Offsets,
    Uniform,
    Vector,
    deeper,
    level_of,
)
from tilewright.backends.cpu.nest.reshapes import reshaped
from tilewright.dialects.builtin import Poison
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, Cat, ExpandDims, Gather, Join, Splat, Trans
from tilewright.ir.core import Value, tile_type
from tilewright.ir.types import IntType, Type, i1, i32, i64

Ask: TypeAlias = Callable[[Context, Value, Index], Lane]
Move: TypeAlias = Callable[[Context, Any, Index, Ask], Lane]
"""The lanes of the result of an op, of the class that this move is for."""


def _splat(op: Splat, index: Index) -> Index:
    return ()


def _expand_dims(op: ExpandDims, index: Index) -> Index:
    axis = axis_of_new(op)
    return index[:axis] + index[axis + 1 :]


def _broadcast(op: Broadcast, index: Index) -> Index:
    shape = tile_type(op.source).shape
    return tuple(ZERO if n == 1 else lane for n, lane in zip(shape, index, strict=True))


def _trans(op: Trans, index: Index) -> Index:
    moved: list[Offsets] = [ZERO] * len(index)
    for position, axis in enumerate(op.order):
        moved[axis] = index[position]
    return tuple(moved)


_INDICES: dict[str, Callable[[Any, Index], Index]] = {
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand_dims,
    "tt.splat": _splat,
    "tt.trans": _trans,
}
"""For ops that do not move lanes: the index at which their operand is asked."""


def _passed_on(c: Context, op: Broadcast | ExpandDims | Splat | Trans, index: Index, ask: Ask) -> Lane:
    return ask(c, op.source, _INDICES[op.name](op, index))


def _range(c: Context, op: MakeRange, index: Index, ask: Ask) -> Lane:
    """start + index, in 32 bits."""
    lane = c.plus(index[0], Uniform(op.start, 0))
    element = op.result.type.scalar
    if isinstance(lane, Uniform):
        return Uniform(c.extend(lane.value, i64, element, lane.level), lane.level)
    if isinstance(lane, Affine):
        return widened(c, lane, i64, element)
    whole = c.as_vector(lane, i64)
    return Vector(c.emit(whole.level, "arith.trunci", c.wide(element), whole.value), whole.level)


def _join(c: Context, op: Join, index: Index, ask: Ask) -> Lane:
    """join(a, b)[…, 0] = a[…], join(a, b)[…, 1] = b[…]"""
    a, b = op.lhs, op.rhs
    return _choose(c, index[-1], op.result, lambda: ask(c, a, index[:-1]), lambda: ask(c, b, index[:-1]))


def _cat(c: Context, op: Cat, index: Index, ask: Ask) -> Lane:
    """The elements of a, then those of b, along axis 0."""
    a, b = op.lhs, op.rhs
    second, inside = c.divided(index[0], tile_type(a).shape[0])
    rest = index[1:]
    return _choose(c, second, op.result, lambda: ask(c, a, (inside, *rest)), lambda: ask(c, b, (inside, *rest)))


def _choose(c: Context, which: Offsets, value: Value, zero: Callable[[], Lane], one: Callable[[], Lane]) -> Lane:
    if isinstance(which, Uniform) and which.value in (0, 1):
        return deeper(one() if which.value else zero(), which.level)
    element = value.type.scalar
    a, b = zero(), one()
    if not isinstance(which, Uniform):
        lanes = c.as_vector(which, i64)
        condition = Vector(c.compare("ne", lanes.value, 0, lanes.value.type, lanes.level), lanes.level)
    else:
        chosen = c.compare("ne", which.value, 0, i64, which.level)
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            level = max(which.level, a.level, b.level)
            return Uniform(c.select(chosen, b.value, a.value, element, level), level)
        condition = c.as_vector(Uniform(chosen, which.level), i1)
    x, y = c.as_vector(a, element), c.as_vector(b, element)
    level = max(level_of(v) for v in (x, y, condition))
    return Vector(c.emit(level, "arith.select", c.wide(element), condition.value, y.value, x.value), level)


def _gather(c: Context, op: Gather, index: Index, ask: Ask) -> Lane:
    """src[…, indices[…], …] along one axis."""
    source, indices, axis = op.source, op.indices, axis_of(op)
    distance = distance_of_indices(op)
    if distance is not None and _counts_elements(index[axis]):
        return _partners(c, source, index, axis, distance, ask)
    wide = _as_place(c, ask(c, indices, index), indices.type.scalar)
    return ask(c, source, (*index[:axis], wide, *index[axis + 1 :]))


def _as_place(c: Context, where: Lane, element: Type) -> Offsets:
    """The number of an element in 64 bits; one of less than 32 bits has no sign, so that an i8 reaches 255."""
    signed = element in (i32, i64)
    if isinstance(where, Uniform):
        return Uniform(c.extend(where.value, element, i64, where.level, signed=signed), where.level)
    narrow = c.as_vector(where, element)
    if element is i64:
        return narrow
    name = "arith.extsi" if signed else "arith.extui"
    return Vector(c.emit(narrow.level, name, c.wide(i64), narrow.value), narrow.level)


def _counts_elements(lane: Lane) -> bool:
    """Whether `lane` counts the elements of a whole axis, or is one of them."""
    return isinstance(lane, Uniform) or lane == LANE


def _flipped(c: Context, index: Uniform, bits: int) -> Uniform:
    """An index XOR `bits`."""
    if not bits:
        return index
    if isinstance(index.value, int):
        return Uniform(index.value ^ bits, index.level)
    return Uniform(c.binary("arith.xori", index.value, bits, i64, index.level), index.level)


def _partners(c: Context, source: Value, index: Index, axis: int, distance: int, ask: Ask) -> Lane:
    """The elements at `distance` (XOR) along the axis: those of another chunk of lanes, which trade places."""
    lane, near = index[axis], distance % c.lanes
    if isinstance(lane, Uniform):
        return ask(c, source, (*index[:axis], _flipped(c, lane, distance), *index[axis + 1 :]))
    if distance > near:
        level = max(lane.level, c.lane_level)
        start = _flipped(c, Uniform(c.start_of(LANE, i64), level), distance - near)
        lane = Affine(start.value, 1, level, local=True)
    found = ask(c, source, (*index[:axis], lane, *index[axis + 1 :]))
    if isinstance(found, Uniform) or not near:
        return found
    whole = c.as_vector(found, source.type.scalar)
    with c.at(whole.level):
        return Vector(c.b.shuffle(whole.value, None, [number ^ near for number in range(c.lanes)]), whole.level)


def _poison(c: Context, op: Poison, index: Index, ask: Ask) -> Lane:
    element = op.result.type.scalar
    return Uniform(0 if isinstance(element, IntType) else c.zero(element), 0)


MOVES: dict[str, Move] = {
    **dict.fromkeys(_INDICES, _passed_on),
    "tt.cat": _cat,
    "tt.gather": _gather,
    "tt.join": _join,
    "tt.make_range": _range,
    "tt.reshape": reshaped,
    "ub.poison": _poison,
}
