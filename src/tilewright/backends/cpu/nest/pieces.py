"""Index-set splitting of loops over ranges that `//` and `%` divide: they are split where a row ends.

    for piece in 0 … pieces:                   the quotient is start // n + piece, the remainder a range
        for whole chunks of lanes in it:       a fast version: no masks
        the lanes that are left                the same, where few lanes count

So one scalar is divided per row, and no vectors are. The pieces end at a whole chunk where a mask ends; the rest, or
everything if the guards do not hold, is left to the general loop. Where `split_index_sets.py` has marked a selection, a
piece has a loop for the lanes before the condition changes, and one for those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import NamedTuple, TypeAlias

from tilewright.backends.cpu.affine import is_affine, is_uniform
from tilewright.backends.cpu.loop_facts import SPLITS
from tilewright.backends.cpu.nest.context import Context, Guarded, Period
from tilewright.backends.cpu.nest.evaluate import evaluate, evaluate_place
from tilewright.backends.cpu.nest.integers import new_period
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, ActiveLaneBound, Index, Lane, Scalar, Uniform
from tilewright.backends.cpu.nest.versions import asked_by, rely
from tilewright.backends.cpu.split_index_sets import ordering_of, truths_of
from tilewright.dialects import tt_shape
from tilewright.dialects.arith import Division, Select
from tilewright.dialects.cpu import Assume
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.ir.types import IntType, i1, i64
from tilewright.transforms.matching import integer_of

Truths: TypeAlias = Mapping[tuple[Value, Index], Lane]
"""Lanes that are known of masks, by the index at which those are asked for."""


class Part(NamedTuple):
    """One side of a split piece: the piece's period, and the lanes from `low` to `high`."""

    period: Period
    low: Value
    high: Value


class Split(NamedTuple):
    """The lane `place` at which a piece is split, an i64; None: nowhere.

    Attributes:
        known: the masks that are on or off on all lanes before it, and behind it.
    """

    place: Value | None
    known: tuple[Truths, Truths]


_CUTS_LANES = (tt_shape.Cat, tt_shape.Gather, tt_shape.Join, tt_shape.Reshape, tt_shape.Split)
"""Ops that want chunks of lanes to begin where those of the whole axis do."""


def lower_pieces(
    c: Context, ops: Sequence[Op], assumed: Sequence[Assume], outer: Index, act: Callable[[], None]
) -> Scalar:
    """Build the loops of the pieces; returns the lane behind them, which is a multiple of the lanes of a chunk.

    Args:
        c: the context, before the inner loop.
        ops: all that the loop computes.
        assumed: what its versions may rely on.
        outer: the index along the axes around it.
        act: builds what a chunk of lanes does.
    """
    b = c.b
    c.depth += 1  # what the pieces depend on stands before all versions
    first = _first_period(c, ops, outer)
    if first is None:
        c.depth -= 1
        return 0
    loops, count, end = Block(), b.later(i64), b.later(i64)
    with b.into(loops), b.loop(0, count) as pieces:
        splits, rely_on = partial(_splits, c, ops, outer), partial(rely, c, asked_by(assumed, outer))
        relied = _lower_piece(c, first, (pieces.index, end), splits, rely_on, act)
    limits, conditions = ([value for value in relied if value.type is type] for type in (i64, i1))
    least = b.smax(reduce(b.smin, limits, b.constant(c.extent, i64)), 0)
    found = b.select(c.all_of(conditions), b.and_(least, -c.lanes), 0)
    rest, divisor = _wide(c, first, first.rest), _wide(c, first, first.divisor)
    rows = b.udiv(b.add(b.add(rest, found), b.sub(divisor, 1)), b.smax(divisor, 1))
    c.depth -= 1
    count.replace_by(b.select(b.compare("sgt", found, 0), rows, 0))
    end.replace_by(found)
    b.splice(loops)
    return found


def _first_period(c: Context, ops: Sequence[Op], outer: Index) -> Period | None:
    """The period of lane 0 in a range that is cut up; None if there is none, or lanes change places."""
    if any(isinstance(op, _CUTS_LANES) for op in ops):
        return None
    for op in ops:
        if isinstance(op, Division) and _cuts_up(c, op) and len(op.result.type.shape or ()) == len(outer) + 1:
            start, divisor = (evaluate_place(c, v, (*outer, LANE)) for v in op.operands)
            found = new_period(c, start, divisor, op.result.type.scalar)
            if found is not None:
                return found
    return None


def _cuts_up(c: Context, op: Division) -> bool:
    """Whether `op` divides a range of integers by one number, so that a chunk of lanes may have one quotient."""
    number = integer_of(op.rhs)
    may = number is None or number >= c.lanes
    return may and isinstance(op.result.type.scalar, IntType) and is_uniform(op.rhs) and is_affine(op.lhs)


def _begin_piece(c: Context, first: Period, number: Value) -> Period:
    """Begin the body of the loop over pieces; returns the period of the piece at hand."""
    b, inner = c.b, c.depth
    c.blocks.append(b.block)
    c.depth, c.lane_level = inner + 1, inner + 1
    back = c.multiply(c.extend(number, i64, first.type, inner), first.divisor, first.type, inner)
    rest = c.subtract(first.rest, back, first.type, inner)
    quotient = c.add(first.quotient, c.extend(number, i64, first.type, inner), first.type, inner)
    return first._replace(quotient=quotient, rest=rest, level=inner)


def _lower_piece(
    c: Context,
    first: Period,
    place: tuple[Value, Value],
    splits: Callable[[], Split],
    relied: Callable[[], Sequence[Value]],
    act: Callable[[], None],
) -> Sequence[Value]:
    """The chunks of one piece, in the body of the loop over pieces; returns what they rely on.

    Args:
        c: the context, before the body.
        first: the period of the first piece.
        place: the number of the piece, and the lane at which the last piece ends.
        splits: returns where the piece is split.
        relied: returns the conditions that its version relies on.
        act: builds what a chunk of lanes does.
    """
    number, end = place
    period = _begin_piece(c, first, number)
    inner = period.level
    facts = _begin_version(c, period, 0, relied)
    begin = c.subtract(0, c.extend(period.rest, period.type, i64, inner), i64, inner)
    low = c.binary("arith.maxsi", begin, 0, i64, inner)
    high = c.binary("arith.minui", c.add(begin, _wide(c, first, first.divisor), i64, inner), end, i64, inner)
    split, known = splits()
    if split is None:
        _lower_chunks(c, low, high, act)
    else:
        split = c.binary("arith.minsi", c.binary("arith.maxsi", split, low, i64, inner), high, i64, inner)
        for side, part in enumerate((Part(period, low, split), Part(period, split, high))):
            facts = [*facts, *_lower_side(c, part, side + 1, known[side], relied, act)]
    c.fast = None
    c.blocks.pop()
    c.depth, c.lane_level = inner, inner
    c.forget(inner)
    return list(dict.fromkeys(facts))


def _lower_side(
    c: Context,
    part: Part,
    side: int,
    known: Truths,
    relied: Callable[[], Sequence[Value]],
    act: Callable[[], None],
) -> Sequence[Value]:
    """The chunks on one side of a split piece, if there are any: what is read once for them is read then only."""
    b, outer, before = c.b, c.depth, (c.certain, c.certain_at)
    c.certain, c.certain_at = {**c.certain, **known}, outer
    with b.branch(c.compare("slt", part.low, part.high, i64, outer - 1)) as branch, branch.then():
        c.blocks.append(b.block)
        c.depth, c.lane_level = outer + 1, outer + 1
        facts = _begin_version(c, part.period, side, relied)
        _lower_chunks(c, part.low, part.high, act)
        c.blocks.pop()
        c.depth, c.lane_level = outer, outer
        c.forget(outer)
    c.certain, c.certain_at = before
    return facts


def _begin_version(c: Context, period: Period, side: int, relied: Callable[[], Sequence[Value]]) -> Sequence[Value]:
    """Begin a version for lanes of `period`; returns what it relies on."""
    c.begin(Guarded(c.depth - 1, period, side))
    c.facts = (period.is_one,)
    return relied()


def _lower_chunks(c: Context, low: Value, high: Value, act: Callable[[], None]) -> None:
    """Whole chunks of the lanes from `low` to `high`, and the few lanes that are left."""
    b, inner = c.b, c.depth - 1
    whole = c.binary("arith.andi", c.subtract(high, low, i64, inner), -c.lanes, i64, inner)
    after = c.value(c.add(low, whole, i64, inner), i64)
    with b.loop(low, after, c.lanes) as loop:
        c.position = loop.index
        act()
    c.forget(inner + 1)
    with b.branch(c.compare("slt", after, high, i64, inner)) as branch, branch.then():
        c.position, c.cut = after, ActiveLaneBound(high, inner)
        act()
    c.cut = None


def _splits(c: Context, ops: Sequence[Op], outer: Index) -> Split:
    """The lane at which a piece is split, if at all, and what is known of masks on either side."""
    for op in ops:
        condition = ordering_of(op) if isinstance(op, Select) and SPLITS in op.attributes else None
        said = [(mask.results[0], says) for mask, says in truths_of(condition, ops)] if condition is not None else []
        for mask, says in said:
            place = _end_of(c, mask, _index_of(mask, outer))
            if place is not None:
                before = {(v, _index_of(v, outer)): Uniform(int(truth == says), 0) for v, truth in said}
                after = {(v, _index_of(v, outer)): Uniform(int(truth != says), 0) for v, truth in said}
                return Split(place, (before, after))
    return Split(None, ({}, {}))


def _end_of(c: Context, mask: Value, index: Index) -> Value | None:
    """The lane up to which a mask is on, and from which on it is off, an i64 before the chunks; None: no such."""
    shape = tile_type(mask).shape
    if len(shape) != len(index) or shape[-1] != c.extent:
        return None
    with c.b.into(Block()):
        lane = evaluate(c, mask, index)
        for left in reversed(list(c.b.block)):
            left.erase()
    c.forget(c.depth)
    if not isinstance(lane, ActiveLaneBound) or lane.parts or lane.level >= c.depth:
        return None
    return c.value(lane.below, i64)


def _index_of(mask: Value, outer: Index) -> Index:
    """The index at which a mask of the rank of the nest is asked for."""
    shape = tile_type(mask).shape
    return tuple(ZERO if n == 1 else lane for n, lane in zip(shape, (*outer, LANE), strict=False))


def _wide(c: Context, period: Period, number: Scalar) -> Value:
    """A number of a period as an i64."""
    return c.value(c.extend(number, period.type, i64, period.level), i64)
