"""Loops of rows that end within the tile: first whole chunks of lanes, in which no lane is masked off.

    for lane = 0 … 1024: under masks    →    for lane = 0 … %n & -32: the fast version, several chunks at once
                                             for lane = %n & -32 … 1024: under masks

A row is often shorter than its tile, whose extent is a power of two. The masks of all programs depend on scalars that
do not depend on the program, so every row ends at the same index. Masks that only the last tile of a row needs get no
such loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tilewright.analysis.value_flow import backward_slice
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.lane_values import Index, Scalar
from tilewright.backends.cpu.nest.versions import asked_by, rely
from tilewright.dialects.arith import Division
from tilewright.dialects.cpu import Assume
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import Effect
from tilewright.ir.types import i1, i64

MAX_AT_ONCE = 4
"""Max chunks per iteration of the loop over whole chunks; remaining ones are computed one by one, with masks."""


MIN_AT_ONCE = 4
"""Min number of chunks of an iteration of the fast version, with which the loop gets one over whole chunks, too."""


def has_same_end(assumed: Sequence[Assume]) -> bool:
    """Whether a version relies on masks only, and not on conditions that differ between programs or iterations."""
    named = [op.value for op in assumed if not _is_float_quotient(op.value)]
    return bool(named) and not any(isinstance(value.op, Division) or _differs(value) for value in named)


def _is_float_quotient(value: Value) -> bool:
    """Whether `value` is a quotient of floats, of which a version relies on its divisor's reciprocal."""
    return value.op is not None and value.op.name == "arith.divf"


def _differs(value: Value) -> bool:
    """Whether `value` depends on the number of the program, on the iteration of a loop, or on memory."""
    ops = backward_slice(value)
    others = [v for v in (value, *(v for op in ops for v in op.operands)) if v.op is None]
    return any(isinstance(op, (ProgramId, Load)) for op in ops) or not all(map(_is_argument, others))


def _is_argument(value: Value) -> bool:
    """Whether `value` is an argument of the kernel."""
    block = value.block
    op = None if block is None or block.region is None else block.region.op
    return isinstance(op, Op) and op.definition.isolated


def reads_in_front(ops: Block) -> bool:
    """Whether memory is read before the loop in `ops`, where an address may be none if the loop has no iteration."""
    return any(op.definition.effect is Effect.READ for op in ops)


def lower_prefix(
    c: Context, assumed: Sequence[Assume], outer: Index, most: Scalar, width: int, build: Callable[[Value], None]
) -> tuple[Value, Block] | None:
    """Build the loop over whole chunks before a general loop; None if no mask has such a bound.

    Args:
        c: the context, before both loops.
        assumed: what the version relies on.
        outer: the index along the axes around the loop.
        most: the lane up to which the loop may go, an i64.
        width: the number of lanes of an iteration.
        build: builds the loop up to a lane, an i64, which is a multiple of `width`.

    Returns:
        The lane behind the loop, an i64, and the ops of the loop, which are in no place yet.
    """
    b, only, guarded = c.b, Block(), c.depth + 1
    c.depth, c.lane_level = guarded, guarded + 1
    c.begin(Guarded(guarded, prefix=True))
    c.blocks.append(only)
    relied = rely(c, asked_by(assumed, outer))
    limits, conditions = ([value for value in relied if value.type is type] for type in (i64, i1))
    after = b.later(i64)
    if limits:
        with b.into(only):
            build(after)
    c.blocks.pop()
    c.depth, c.lane_level, c.fast = guarded - 1, guarded, None
    c.forget(guarded)
    if not limits:
        return None
    least = b.smax(reduce(b.smin, limits, b.smin(b.number(most), c.extent)), 0)
    if conditions:
        least = b.select(c.all_of(conditions), least, 0)
    whole = b.and_(least, -width)
    after.replace_by(whole)
    return whole, only
