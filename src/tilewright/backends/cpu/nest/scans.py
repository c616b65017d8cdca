"""Prefix scans: chunk after chunk along the row, or step after step along another axis.

In a row each vector is scanned in log2 W shuffles and combined with the last lane of the vector before it.
"""

from __future__ import annotations

from tilewright.backends.cpu.nest.combine import Combine
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, Index, Uniform, Vector
from tilewright.backends.cpu.nest.sinks import prepare
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.llvm.spelling import vector
from tilewright.dialects.cpu import Write
from tilewright.dialects.tt_reduce import Scan


def emit_scan(c: Context, nest: Nest, scan: Scan, writes: list[Write], extent: int, outer: Index) -> None:
    """Write the loop for the tt.scan `scan` and for the writes of its results to buffers."""
    combine = Combine(scan)
    reverse = scan.reverse
    by_rows = nest.mode == "rows"
    step = c.lanes if by_rows else 1
    types = [vector(e, c.lanes) for e in combine.elements]
    c.depth += 1
    with c.w.loop(
        0,
        extent,
        step,
        carried=[
            (t, "zeroinitializer" if c.lanes > 1 else "0" if e[0] == "i" else "zeroinitializer")
            for t, e in zip(types, combine.elements, strict=True)
        ],
    ) as loop:
        position = c.emit(c.depth, f"sub i64 {extent - step}, {loop.index}") if reverse else loop.index
        index = _index(c, nest, outer, position, by_rows=by_rows)
        values = [
            c.as_vector(evaluate(c, v, index), e).name for v, e in zip(scan.operands, combine.elements, strict=True)
        ]
        if by_rows:
            values = combine.scan_lanes(c.w, values, c.lanes, reverse=reverse)
        joined = combine.apply(c.w, loop.carried, values, c.lanes)
        first = c.w.emit(f"icmp eq i64 {loop.index}, 0")
        values = combine.select(c.w, first, values, joined, c.lanes)
        for result, name in zip(scan.results, values, strict=True):
            c.reduced[result] = Vector(name, c.depth)
        for write in writes:
            prepare(c, write, index)()
        loop.next = _last_lanes(c, combine, values, reverse=reverse) if by_rows else values
    c.depth -= 1
    c.forget(c.depth + 1)
    for result in scan.results:
        del c.reduced[result]


def _index(c: Context, nest: Nest, outer: Index, position: str, *, by_rows: bool) -> Index:
    if by_rows:
        c.position = position
        return (*outer, LANE)
    found = list(outer)
    found.insert(nest.axis, Uniform(position, c.depth))
    return tuple(found)


def _last_lanes(c: Context, combine: Combine, values: list[str], *, reverse: bool) -> list[str]:
    """The lane that the next chunk continues from, in every lane."""
    lane = 0 if reverse else c.lanes - 1
    if c.lanes == 1:
        return values
    return [
        c.w.shuffle(vector(e, c.lanes), v, "poison", [lane] * c.lanes)
        for v, e in zip(values, combine.elements, strict=True)
    ]
