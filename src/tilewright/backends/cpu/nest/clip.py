"""The ends of loops along a row, as cpu.clip says."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, ActiveLaneBound, Index, Scalar
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.cpu import Clip, Write
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op
from tilewright.ir.types import i64


def end_of_copy(c: Context, extent: int, width: int) -> Scalar:
    """The end of a loop that copies as many elements of a row as are asked for."""
    assert c.ends is not None, "the copy is told its ends"
    _, needed = c.ends
    return extent if needed == extent else _whole_steps(c, needed, width, 0)


def end_of_loop(c: Context, nest: Nest, sinks: Sequence[Op], extent: int, outer: Index, width: int) -> Scalar:
    """The end of the loop for `sinks` along a row of `extent` lanes, `width` in each step; an i64."""
    clips = [op for op in nest.body if isinstance(op, Clip) and (op.phase, op.extent) == (nest.phases[sinks[0]], extent)]
    bounds = dict.fromkeys(bound for clip in clips for bound in _bounds(c, clip, sinks, outer))
    if not bounds or None in bounds:
        return extent
    known = [bound for bound in bounds if bound is not None]
    level = max(bound.level for bound in known)
    end: Scalar = 0
    for bound in known:
        end = c.binary("arith.maxsi", end, bound.below, i64, level)
    one_more = any(isinstance(sink, Reduce) for sink in sinks)
    if len(known) == 1 and width == c.lanes and not one_more:
        c.active_lane_bound = known[0].below
    return _whole_steps(c, c.binary("arith.minsi", end, extent - one_more, i64, level), width, level, one_more)


def _whole_steps(c: Context, number: Scalar, width: int, level: int, one_more: bool = False) -> Scalar:
    return c.binary("arith.andi", c.add(number, width - 1 + one_more, i64, level), -width, i64, level)


def _bounds(c: Context, clip: Clip, sinks: Sequence[Op], outer: Index) -> list[ActiveLaneBound | None]:
    """The bounds of the masks, and of the buffers that other nests show; None where they show all."""
    index, bounds = (*outer, LANE), list[ActiveLaneBound | None]()
    c.position = 0
    for mask, axes in clip.placed:
        lane = evaluate(c, mask, tuple(ZERO if axis < 0 else index[axis] for axis in axes))
        bounds.append(lane if isinstance(lane, ActiveLaneBound) else None)
    c.forget(c.depth)
    for sink in sinks:
        if isinstance(sink, Write) and not sink.row:
            seen = c.seen.get((sink.buffer, len(outer)))
            bounds.append(None if seen is None else ActiveLaneBound(seen, 0))
    return bounds
