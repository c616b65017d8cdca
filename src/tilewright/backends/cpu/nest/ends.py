"""The bounds of the loops of a nest: where masks end, and where other nests read no more of what is written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tilewright.backends.cpu.costs import conjuncts
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, ActiveLaneBound, Index, Lane, Scalar
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.cpu import ALL_PHASES, Clip, Read, Write
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op, Value
from tilewright.ir.types import i64

SHORT_ROW = 4
"""Max number of vectors of a row before which the question whether it counts would cost more than the row."""

NOWHERE = ActiveLaneBound(0, 0)
"""The bound of a mask that is off everywhere."""


def end_of_rows(c: Context, nest: Nest, extent: int) -> tuple[Scalar, list[Value]]:
    """The end of the loop over the rows of a nest, an i64, and masks that are on in all of these rows."""
    if c.ends is not None:
        return c.ends[0], []
    is_plain, lanes = nest.mode == "rows" and len(nest.outer) == 1 and c.programs == 1, c.extent
    c.extent = extent
    bounds = _bounds(c, nest, nest.sinks, (ALL_PHASES, extent), (LANE, ZERO)) if is_plain else []
    c.extent = lanes
    if not bounds:
        return extent, []
    is_known = len(bounds) == 1 and not bounds[0].parts
    on = [op.mask for op in nest.body.ops_of(Clip) if op.phase == ALL_PHASES] if is_known else []
    return c.binary("arith.minsi", _farthest(c, bounds), extent, i64, 0), on


def parts_of_rows(c: Context, nest: Nest, end: Scalar) -> list[tuple[Scalar, Scalar, list[Value]]]:
    """The loops over the rows of a nest: bounds, i64, and masks that are on in all of these rows.

    Short rows that are added to a buffer would test each element, which takes longer than to add it.
    Rows behind the first that does not count have a loop of their own, as they are added all the same. Where more than
    one vector of a row counts, `version_single_vectors.py` makes one loop of both again.
    """
    whole: list[tuple[Scalar, Scalar, list[Value]]] = [(0, end, [])]
    masks = _masks_of_rows(c, nest) if isinstance(end, int) and end > 1 else []
    lanes, c.extent = c.extent, end if isinstance(end, int) else 1
    bounds = {mask: evaluate(c, mask, (LANE, ZERO)) for mask in masks}
    c.extent = lanes
    on = [mask for mask, bound in bounds.items() if isinstance(bound, ActiveLaneBound) and bound.level == 0]
    if not on:
        return whole
    rows = [bound.below for bound in dict.fromkeys(bounds[mask] for mask in on) if isinstance(bound, ActiveLaneBound)]
    least = reduce(lambda a, b: c.binary("arith.minsi", a, b, i64, 0), [end, *rows])
    count = c.binary("arith.maxsi", least, 0, i64, 0)
    return [(0, count, on), (count, end, [])]


def _masks_of_rows(c: Context, nest: Nest) -> list[Value]:
    """The conditions that masks of loads have for each row, in a nest that adds short rows to buffers."""
    is_plain = nest.mode == "rows" and len(nest.outer) == 1 and c.programs == 1 and c.ends is None
    if not is_plain or c.optimize_size or not all(isinstance(s, Write) and not s.row for s in nest.sinks):
        return []
    filled = {sink.buffer for sink in nest.sinks if isinstance(sink, Write)}
    if not any(isinstance(op, Read) and op.buffer in filled for op in nest.body):
        return []
    if not 1 < max(nest.inner_extent(sink) for sink in nest.sinks) // nest.op.lanes <= SHORT_ROW:
        return []
    masks = [op.mask for op in nest.body.ops_of(Load) if op.mask is not None]
    parts = dict.fromkeys(part for mask in masks for part in conjuncts(mask))
    return [part for part in parts if part.type.shape == (*nest.outer, 1)]


def end_of_scan(c: Context, nest: Nest, writes: Sequence[Write], extent: int, width: int) -> Scalar:
    """The end of the loop of a scan, whose results are in `writes`, an i64: beyond it no op reads them.

    Args:
        c: the context, before the loop.
        nest: the nest.
        writes: the writes of the results to buffers.
        extent: the length of the axis.
        width: the number of elements in each step.
    """
    axis = len(nest.outer) if nest.axis < 0 else nest.axis
    numbers = [extent if write.row else c.seen.get((write.buffer, axis), extent) for write in writes]
    if extent in numbers or not numbers or c.programs != 1:
        return extent
    return _whole_steps(c, _farthest(c, [ActiveLaneBound(number, 0) for number in numbers]), width, width, 0)


def end_of_copy(c: Context, extent: int, width: int) -> Scalar:
    """The end of a loop that copies as many elements of a row as are asked for."""
    assert c.ends is not None, "the copy is told its ends"
    _, needed = c.ends
    return extent if needed == extent else _whole_steps(c, needed, width, width, 0)


def end_of_loop(c: Context, nest: Nest, sinks: Sequence[Op], extent: int, outer: Index, width: int) -> Scalar:
    """The end of the loop for `sinks` along a row of `extent` lanes, `width` in each step; an i64.

    Args:
        c: the context, before the loop.
        nest: the nest.
        sinks: the ops that the loop is for.
        extent: the number of lanes of a row.
        outer: the indices of the row.
        width: the number of lanes in each step.
    """
    c.position = 0
    bounds = _bounds(c, nest, sinks, (nest.phases[sinks[0]], extent), (*outer, LANE))
    c.forget(c.depth)
    if not bounds:
        return extent
    level = max(bound.level for bound in bounds)
    one_more = any(isinstance(sink, Reduce) for sink in sinks)
    if len(bounds) == 1 and width == c.lanes and not one_more:
        c.active_lane_bound = bounds[0].below
    end = c.binary("arith.minsi", _farthest(c, [NOWHERE, *bounds]), extent - one_more, i64, level)
    return _whole_steps(c, end, width + one_more, width, level)


def _farthest(c: Context, bounds: Sequence[ActiveLaneBound]) -> Scalar:
    """The greatest of the bounds, which all masks are off beyond."""
    level = max(bound.level for bound in bounds)
    return reduce(lambda a, b: c.binary("arith.maxsi", a, b, i64, level), [bound.below for bound in bounds])


def _whole_steps(c: Context, number: Scalar, more: int, width: int, level: int) -> Scalar:
    """The last multiple of `width` below `number + more`."""
    return c.binary("arith.andi", c.add(number, more - 1, i64, level), -width, i64, level)


def _bounds(c: Context, nest: Nest, sinks: Sequence[Op], loop: tuple[int, int], index: Index) -> list[ActiveLaneBound]:
    """The bounds of masks, and of what other nests show of buffers; none where the loop goes all the way.

    All lanes from these bounds on are off.

    Args:
        c: the context, before the loop.
        nest: the nest.
        sinks: those in the loop.
        loop: its phase and its extent.
        index: an index into tiles of the nest's rank, LANE along the axis of the loop.
    """
    phase, extent = loop
    found = nest.body if Clip in nest.body.kinds else ()
    clips = [op for op in found if isinstance(op, Clip) and (op.phase, op.extent) == (phase, extent)]
    filled = [sink.buffer for sink in sinks if isinstance(sink, Write) and not sink.row]
    if not clips and len(filled) < len(sinks):
        return []
    bounds = dict[Lane | None, None]()
    for clip in clips:
        bounds[evaluate(c, clip.mask, tuple(ZERO if axis < 0 else index[axis] for axis in clip.axes))] = None
    for number in (c.seen.get((buffer, index.index(LANE)), extent) for buffer in filled):
        bounds[None if number == extent else ActiveLaneBound(number, 0)] = None
    known = [bound._replace(below=c.end_of(bound)) for bound in bounds if isinstance(bound, ActiveLaneBound)]
    return known if len(known) == len(bounds) else []
