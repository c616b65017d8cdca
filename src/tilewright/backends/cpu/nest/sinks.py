"""The work of each sink on one chunk of lanes: first everything it needs is computed, then it acts.

Two steps, so that the loads of all sinks and chunks of an iteration stand before its stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import Index, Lane, Vector, pointer, size_of
from tilewright.backends.cpu.nest.loads import (
    buffer_address,
    contiguous_start,
    counting,
    is_often_contiguous,
    needed_mask,
    reachable,
)
from tilewright.backends.cpu.nest.stores import write
from tilewright.backends.cpu.row_numbers import SUMS
from tilewright.dialects.cpu import Write, tile_of
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
from tilewright.dialects.tt_memory import Store
from tilewright.ir.core import Op
from tilewright.ir.types import i1

Act = Callable[[], None]


def prepare(c: Context, sink: Op, index: Index) -> Act:
    """Compute what the store, write or atomic `sink` needs at `index`; returns what is left to do."""
    outer, c.b.location = c.b.location, sink.location
    act = PREPARE[sink.name](c, sink, index)
    c.b.location = outer

    def located() -> None:
        outer, c.b.location = c.b.location, sink.location
        act()
        c.b.location = outer

    return located


def _write(c: Context, sink: Write, index: Index) -> Act:
    buffer = sink.buffer
    lane = evaluate(c, sink.value, index)
    address = buffer_address(c, c.buffer(buffer), tile_of(buffer.type), index[-1:] if sink.row else index)
    return write(c, address, lane, None, sink.value.type.scalar)


def _store(c: Context, sink: Store, index: Index) -> Act:
    address = evaluate(c, sink.pointer, index)
    lane = evaluate(c, sink.value, index)
    mask = None if sink.mask is None else evaluate(c, sink.mask, index)
    return write(c, address, lane, mask, sink.value.type.scalar, in_runs=is_often_contiguous(c, address, sink.pointer))


def _atomic(c: Context, sink: AtomicRmw | AtomicCas, index: Index) -> Act:
    if isinstance(sink, AtomicRmw) and c.lanes > 1:
        return _add(c, sink, index)
    assert c.lanes == 1, "of atomics, sums alone are vectors"
    operands = [evaluate(c, v, index) for v in sink.operands]
    if isinstance(sink, AtomicRmw) and sink.mask is not None:
        *others, mask = operands
        operands = operands if needed_mask(c, mask) is not None else others
    return lambda: lower_atomic(c, sink, operands, index)


def _add(c: Context, sink: AtomicRmw, index: Index) -> Act:
    """Add to neighbours in memory, which no other program does: what is there is loaded behind all earlier stores."""
    address, added, *masks = (evaluate(c, v, index) for v in sink.operands)
    type, start = sink.value.type.scalar, contiguous_start(c, address)
    assert start is not None, "neighbours along a row are neighbours in memory"
    mask, align = counting(c, needed_mask(c, masks[0]) if masks else None), size_of(type)
    term = c.as_vector(added, type).value
    on = None if mask is None else c.as_vector(mask, i1).value
    place = pointer(start) if mask is None else reachable(c, start, mask, is_written=True)

    def act() -> None:
        b, wide = c.b, c.wide(type)
        old = (
            b.load(wide, place, align=align) if on is None else b.masked_load(place, on, b.splat(c.zero(type), c.lanes))
        )
        total = b.emit(SUMS[sink.operation], (old, term), wide)
        if on is None:
            b.store(total, place, align=align)
        else:
            b.masked_store(total, place, on, align=align)

    return act


PREPARE: dict[str, Callable[[Context, Any, Index], Act]] = {
    "cpu.write": _write,
    "tt.atomic_cas": _atomic,
    "tt.atomic_rmw": _atomic,
    "tt.store": _store,
}


def lower_atomic(c: Context, op: AtomicRmw | AtomicCas, operands: Sequence[Lane], index: Index) -> None:
    """The atomic `op` on the one lane of a scalar loop, nothing where it is masked off; its result becomes known.

    Args:
        c: the context.
        op: the atomic.
        operands: its operands on the lane, without a mask that is known to be on.
        index: the index of the lane.
    """
    assert c.lanes == 1, "atomics run one element at a time"
    values = [c.as_vector(lane, v.type.scalar).value for lane, v in zip(operands, op.operands, strict=False)]
    scalar = c.b.copy(op, values)
    if op.results:
        c.remember((op.result, index), Vector(scalar.result, c.depth), c.memos())
