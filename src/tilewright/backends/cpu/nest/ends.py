"""The ends of the loops of a nest: where masks end, and where other nests see no more of what is written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from tilewright.backends.cpu.costs import STORES, conjuncts
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, ActiveLaneBound, Index, Lane, Scalar
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.cpu import Clip, Write
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op
from tilewright.ir.types import i64


def end_of_rows(c: Context, nest: Nest, extent: int) -> Scalar:
    """The row from which on the masks of all stores are off, and nobody sees what is written to buffers."""
    if c.ends is not None:
        return c.ends[0]
    if nest.mode != "rows" or len(nest.outer) != 1 or c.programs != 1:
        return extent
    ends = [_last_row(c, sink, extent) for sink in nest.sinks]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return extent
    return c.binary("arith.minsi", reduce(partial(_extreme, c, "arith.maxsi"), dict.fromkeys(known)), extent, i64, 0)


def _last_row(c: Context, sink: Op, extent: int) -> Scalar | None:
    """The row from which on nobody needs `sink`; None where that is not known in front of the nest."""
    if isinstance(sink, Write):
        return c.seen.get((sink.buffer, 0))
    if not isinstance(sink, STORES) or sink.mask is None:
        return None
    c.extent = extent
    parts = [part for part in conjuncts(sink.mask) if part.type.shape == (extent, 1)]
    lanes = [evaluate(c, part, (LANE, ZERO)) for part in parts]
    found = [on.below for on in lanes if isinstance(on, ActiveLaneBound) and on.level == 0]
    return reduce(partial(_extreme, c, "arith.minsi"), found) if found else None


def _extreme(c: Context, name: str, a: Scalar, b: Scalar) -> Scalar:
    return c.binary(name, a, b, i64, 0)


def end_of_copy(c: Context, extent: int, width: int) -> Scalar:
    """The end of a loop that copies as many elements of a row as are asked for."""
    assert c.ends is not None, "the copy is told its ends"
    _, needed = c.ends
    return extent if needed == extent else _whole_steps(c, needed, width, width, 0)


def end_of_loop(c: Context, nest: Nest, sinks: Sequence[Op], extent: int, outer: Index, width: int) -> Scalar:
    """The end of the loop for `sinks` along a row of `extent` lanes, `width` in each step; an i64."""
    bounds = _bounds(c, nest, sinks, extent, outer)
    if not bounds:
        return extent
    level = max(bound.level for bound in bounds)
    end: Scalar = 0
    for bound in bounds:
        end = c.binary("arith.maxsi", end, bound.below, i64, level)
    one_more = any(isinstance(sink, Reduce) for sink in sinks)
    if len(bounds) == 1 and width == c.lanes and not one_more:
        c.active_lane_bound = bounds[0].below
    return _whole_steps(c, c.binary("arith.minsi", end, extent - one_more, i64, level), width + one_more, width, level)


def _whole_steps(c: Context, number: Scalar, more: int, width: int, level: int) -> Scalar:
    return c.binary("arith.andi", c.add(number, more - 1, i64, level), -width, i64, level)


def _bounds(c: Context, nest: Nest, sinks: Sequence[Op], extent: int, outer: Index) -> list[ActiveLaneBound]:
    """The bounds of masks, and of what other nests show of buffers; none where the loop goes through all lanes."""
    loop, index = (nest.phases[sinks[0]], extent), (*outer, LANE)
    clips = [op for op in nest.body if isinstance(op, Clip) and (op.phase, op.extent) == loop]
    filled = [sink.buffer for sink in sinks if isinstance(sink, Write) and not sink.row]
    if not clips and len(filled) < len(sinks):
        return []
    c.position, bounds = 0, dict[Lane | None, None]()
    for mask, axes in [mask for clip in clips for mask in clip.placed]:
        bounds[evaluate(c, mask, tuple(ZERO if axis < 0 else index[axis] for axis in axes))] = None
    c.forget(c.depth)
    for number in (c.seen.get((buffer, len(outer))) for buffer in filled):
        bounds[None if number is None else ActiveLaneBound(number, 0)] = None
    known = [bound for bound in bounds if isinstance(bound, ActiveLaneBound)]
    return known if len(known) == len(bounds) else []
