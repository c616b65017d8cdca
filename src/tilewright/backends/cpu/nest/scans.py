"""Prefix scans: chunk after chunk along the row, or step after step along another axis.

In a row each vector is scanned in log2 W shuffles and combined with the last lane of the previous vector. That lane is
extracted before it is combined, so the latency from one vector to the next is one combination, without a shuffle. A row
whose masks are on for all of it has a loop without them.
"""

from __future__ import annotations

from tilewright.backends.cpu.nest.combine import Combine
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.ends import end_of_scan
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, Index, Uniform, Vector
from tilewright.backends.cpu.nest.sinks import prepare
from tilewright.backends.cpu.nest.versions import asked_by, in_versions
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.cpu import Assume, Write
from tilewright.dialects.tt_reduce import Scan
from tilewright.ir.core import Value


def lower_scan(c: Context, nest: Nest, scan: Scan, writes: list[Write], extent: int, outer: Index) -> None:
    """Build the loop for the tt.scan `scan` and for the writes of its results to buffers, or two versions of it.

    Args:
        c: the context.
        nest: the nest.
        scan: the scan.
        writes: the writes.
        extent: the length of the axis.
        outer: the indices of the other axes.
    """
    own = (nest.phases[scan], extent)
    assumed = [op for op in nest.body.ops_of(Assume) if (op.phase, op.extent) == own]

    def build() -> None:
        _scan(c, nest, scan, writes, extent, outer)

    if assumed:
        in_versions(c, asked_by(assumed, outer), build, build)
    else:
        build()


def _scan(c: Context, nest: Nest, scan: Scan, writes: list[Write], extent: int, outer: Index) -> None:
    """Build one loop."""
    combine = Combine(scan)
    reverse = scan.reverse
    by_rows = nest.mode == "rows"
    step = c.lanes if by_rows else 1
    neutral = combine.identity(c.lanes, c.b)
    before = neutral or [c.b.constant(0, c.wide(element)) for element in combine.types]
    c.depth += 1
    end = extent if reverse else end_of_scan(c, nest, writes, extent, step)
    with c.b.loop(0, end, step, carried=before) as loop:
        position = c.b.sub(extent - step, loop.index) if reverse else loop.index
        index = _index(c, nest, outer, position, by_rows=by_rows)
        values = [
            c.as_vector(evaluate(c, v, index), e).value for v, e in zip(scan.operands, combine.types, strict=True)
        ]
        if by_rows:
            values = combine.scan_lanes(c.b, values, reverse=reverse)
        first = c.b.compare("eq", loop.index, 0) if neutral is None else None
        ends = _last_lanes(c, values, reverse=reverse) if by_rows else None
        values = _joined(c, combine, first, loop.carried, values)
        loop.next = values if ends is None else _joined(c, combine, first, loop.carried, ends)
        for result, value in zip(scan.results, values, strict=True):
            c.reduced[result] = Vector(value, c.depth)
        for write in writes:
            prepare(c, write, index)()
    c.depth -= 1
    c.forget(c.depth + 1)
    for result in scan.results:
        del c.reduced[result]


def _index(c: Context, nest: Nest, outer: Index, position: Value, *, by_rows: bool) -> Index:
    if by_rows:
        c.position = position
        return (*outer, LANE)
    found = list(outer)
    found.insert(nest.axis, Uniform(position, c.depth))
    return tuple(found)


def _joined(
    c: Context, combine: Combine, first: Value | None, before: list[Value], values: list[Value]
) -> list[Value]:
    """The values of a chunk, or of its last lane, with all that is before it; as they are where `first` is true."""
    joined = combine.apply(c.b, before, values)
    if first is None:
        return joined
    return [c.b.select(first, *two) for two in zip(values, joined, strict=True)]


def _last_lanes(c: Context, values: list[Value], *, reverse: bool) -> list[Value]:
    """The lane that the next chunk continues from, in every lane."""
    if c.lanes == 1:
        return values
    return [c.b.shuffle(v, None, [0 if reverse else c.lanes - 1] * c.lanes) for v in values]
