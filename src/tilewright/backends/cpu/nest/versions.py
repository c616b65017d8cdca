"""Guards of loop versions: scalar conditions before a loop, under which the values that a pass lists are known.

"cpu.assume"(%on)        %on is `range < n`             n >= 64
"cpu.assume"(%q)         %q is `(start + range) // n`   start % n + 64 <= n, and it is one number
"cpu.assume"(%q)         %q is `(64 · i + range) // 8`  64 · i >= 0, and it is 8 · i + range / 8
"cpu.assume"(%x)         %x is `a / s`                  2⁻¹²⁵ < |s| < 2¹²⁵, and it is a · (1 / s)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tilewright.backends.cpu.loop_structure import BranchFrame
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.evaluate import evaluate, evaluate_place, has_reciprocal
from tilewright.backends.cpu.nest.integers import aligned_divisor, facts_of, facts_of_aligned, new_period
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Affine, Index, Uniform
from tilewright.backends.cpu.nest.loads import is_on
from tilewright.dialects.arith import Division
from tilewright.dialects.cpu import Assume
from tilewright.ir.core import Block, Value
from tilewright.ir.types import f32, i1

Asked = tuple[Value, Index]
"""A value, and the index at which it is asked for."""


def asked_by(assumed: Iterable[Assume], outer: Index) -> list[Asked]:
    """The values of which a loop along lanes assumes something, with their indices; `outer` is that of axes around."""
    return [(op.value, at((*outer, LANE), op.axes)) for op in assumed]


def at(index: Index, axes: Sequence[int | None]) -> Index:
    """The index of a value that is asked for by these axes; None and -1 are axes of one element."""
    return tuple(ZERO if axis is None or axis < 0 else index[axis] for axis in axes)


def in_versions(
    c: Context, asked: Iterable[Asked], fast: Callable[[], None], general: Callable[[], None]
) -> BranchFrame | None:
    """Build the loop that `fast` builds where what it relies on holds, and else that of `general`.

    The loop over chunks of lanes is in both, or around them.

    Args:
        c: the context, before both.
        asked: what the fast version may rely on, in program order, and the index of each.
        fast, general: build the versions.

    Returns:
        The branch between them; None if nothing has to hold, so that there is the fast one only.
    """
    b, only, guarded = c.b, Block(), c.depth + 1
    is_around = c.lane_level > c.depth
    c.depth, c.lane_level = guarded, c.lane_level + is_around
    c.begin(Guarded(guarded))
    c.blocks.append(only)
    conditions = rely(c, asked)
    with b.into(only):
        fast()
    c.blocks.pop()
    c.depth, c.lane_level, c.fast = guarded - 1, c.lane_level - is_around, None
    c.forget(guarded)
    if not conditions:
        b.splice(only)
        return None
    condition = b.later(i1)
    with b.branch(condition) as branch:
        with branch.then():
            b.splice(only)
        with branch.otherwise():
            general()
            c.forget(c.depth + 1)
        found = c.all_of(_asked_once(c, conditions))
    condition.replace_by(found)
    return branch


def _asked_once(c: Context, conditions: Sequence[Value]) -> Sequence[Value]:
    """The parts of conditions that are to hold together, those first that the loop at hand does not change."""
    parts, left = dict[Value, None](), list(reversed(conditions))
    while left and len(conditions) > 1:
        condition = left.pop()
        if condition.op is not None and condition.op.name == "arith.andi":
            left.extend(reversed(condition.op.operands))
        else:
            parts[condition] = None
    return sorted(parts, key=lambda part: part.block is c.b.block) or conditions


def rely(c: Context, assumed: Iterable[Asked]) -> tuple[Value, ...]:
    """Let the current version rely on conditions that can be evaluated before it; returns them.

    Args:
        c: the context, before the version.
        assumed: masks, quotients and the like in program order, and the index of each.
    """
    assert c.fast is not None, "a version is being built"
    b, extent, depth = c.b, c.extent, c.depth
    c.depth = max(depth, c.fast.level)
    with b.into(Block()):
        for value, index in assumed:
            along = [n for n, lane in zip(value.type.shape or (), index, strict=True) if lane is LANE]
            c.extent = max(along, default=extent)
            c.facts = tuple(dict.fromkeys((*c.facts, *_conditions(c, value, index))))
        for left in reversed(list(b.block)):
            left.erase()
    c.forget(c.depth)
    c.extent, c.depth = extent, depth
    return c.facts


def _conditions(c: Context, value: Value, index: Index) -> Sequence[Value]:
    """The conditions under which lanes of `value` are as assumed; none if they cannot be determined."""
    op = value.op
    if not isinstance(op, Division):
        found = is_on(c, evaluate(c, value, index))
        return [] if found is None else [found]
    divisor = evaluate_place(c, op.rhs, index)
    if value.type.scalar is f32:
        found = has_reciprocal(c, divisor)
        return [] if found is None else [found]
    dividend = evaluate_place(c, op.lhs, index)
    if c.fast is None or c.fast.has_bounds:
        return []
    if isinstance(dividend, Affine) and aligned_divisor(c, dividend, divisor) is not None:
        return facts_of_aligned(c, dividend, value.type.scalar) or ()
    if isinstance(divisor, Uniform) and isinstance(divisor.value, int) and divisor.value < min(c.lanes, c.extent):
        return []  # never one number
    period = new_period(c, dividend, divisor, value.type.scalar)
    return [] if period is None or period.level >= c.fast.level else facts_of(c, period)
