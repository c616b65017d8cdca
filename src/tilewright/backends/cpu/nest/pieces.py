"""Loops over ranges that `//` and `%` cut up are split where a row of them ends.

    for piece in 0 … pieces:                   the quotient is start // n + piece, the remainder a range
        for whole chunks of lanes in it:       a fast version: no masks
        the lanes that are left                the same, where few lanes count

So one number is divided per row, and no vectors are. The pieces end where a mask does, at a whole chunk; what is behind
them, or all if the guards do not hold, is left to the general loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from tilewright.backends.cpu.affine import is_affine, is_uniform
from tilewright.backends.cpu.nest.context import Context, Guarded, Period
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.integers import new_period
from tilewright.backends.cpu.nest.lane_values import LANE, ActiveLaneBound, Index, Scalar
from tilewright.backends.cpu.nest.versions import asked_by, rely
from tilewright.dialects.arith import Division
from tilewright.dialects.cpu import Assume
from tilewright.dialects.tt_shape import Cat, Gather, Join, Reshape, Split
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import IntType, i1, i64
from tilewright.transforms.matching import integer_of

_CUTS_LANES = (Cat, Gather, Join, Reshape, Split)
"""Ops that want chunks of lanes to begin where those of the whole axis do."""


def lower_pieces(
    c: Context, ops: Sequence[Op], assumed: Sequence[Assume], outer: Index, act: Callable[[], None]
) -> Scalar:
    """Build the loops of the pieces; returns the lane behind them, which is a multiple of the lanes of a chunk.

    Args:
        c: the context, in front of the inner loop.
        ops: all that the loop computes.
        assumed: what its versions may rely on.
        outer: the index along the axes around it.
        act: builds what a chunk of lanes does.
    """
    b = c.b
    c.depth += 1  # what the pieces depend on stands in front of all versions
    first = _first_period(c, ops, outer)
    if first is None:
        c.depth -= 1
        return 0
    loops, count, end = Block(), b.later(i64), b.later(i64)
    with b.into(loops), b.loop(0, count) as pieces:
        relied = _lower_piece(c, first, pieces.index, end, partial(rely, c, asked_by(assumed, outer)), act)
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
            start, divisor = (evaluate(c, v, (*outer, LANE)) for v in op.operands)
            found = new_period(c, start, divisor, op.result.type.scalar)
            if found is not None:
                return found
    return None


def _cuts_up(c: Context, op: Division) -> bool:
    """Whether `op` divides a range of integers by one number, so that a chunk of lanes may have one quotient."""
    number = integer_of(op.rhs)
    may = number is None or number >= c.lanes
    return may and isinstance(op.result.type.scalar, IntType) and is_uniform(op.rhs) and is_affine(op.lhs)


def _lower_piece(
    c: Context,
    first: Period,
    number: Value,
    end: Value,
    relied: Callable[[], Sequence[Value]],
    act: Callable[[], None],
) -> Sequence[Value]:
    """The chunks of one piece, in the body of the loop over pieces; returns what they rely on."""
    b, inner = c.b, c.depth
    c.blocks.append(b.block)
    c.depth, c.lane_level = inner + 1, inner + 1
    back = c.multiply(c.extend(number, i64, first.type, inner), first.divisor, first.type, inner)
    rest = c.subtract(first.rest, back, first.type, inner)
    quotient = c.add(first.quotient, c.extend(number, i64, first.type, inner), first.type, inner)
    c.begin(Guarded(inner, first._replace(quotient=quotient, rest=rest, level=inner)))
    c.facts = (first.is_one,)
    facts = relied()
    begin = c.subtract(0, c.extend(rest, first.type, i64, inner), i64, inner)
    low = c.binary("arith.maxsi", begin, 0, i64, inner)
    high = c.binary("arith.minui", c.add(begin, _wide(c, first, first.divisor), i64, inner), end, i64, inner)
    whole = c.binary("arith.andi", c.subtract(high, low, i64, inner), -c.lanes, i64, inner)
    behind = c.value(c.add(low, whole, i64, inner), i64)
    with b.loop(low, behind, c.lanes) as loop:
        c.position = loop.index
        act()
    c.forget(inner + 1)
    with b.branch(c.compare("slt", behind, high, i64, inner)) as branch, branch.then():
        c.position, c.cut = behind, ActiveLaneBound(high, inner)
        act()
    c.fast = c.cut = None
    c.blocks.pop()
    c.depth, c.lane_level = inner, inner
    c.forget(inner)
    return facts


def _wide(c: Context, period: Period, number: Scalar) -> Value:
    """A number of a period as an i64."""
    return c.value(c.extend(number, period.type, i64, period.level), i64)
