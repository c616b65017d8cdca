"""The work of each sink on one chunk of lanes: first everything it needs is computed, then it acts.

Two steps, so that the loads of all sinks and chunks of an iteration stand before its stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.backends.cpu.nest.atomics import emit_atomic
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import Address, Index, Uniform, is_chunked
from tilewright.backends.cpu.nest.loads import buffer_address
from tilewright.backends.cpu.nest.stores import redirected, write
from tilewright.backends.llvm.spelling import element_of
from tilewright.dialects.cpu import GuardedStore, Write, tile_of
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
from tilewright.dialects.tt_memory import Store
from tilewright.ir.core import Op

Act = Callable[[], None]


def prepare(c: Context, sink: Op, index: Index) -> Act:
    """Compute what the store, write or atomic `sink` needs at `index`; returns what is left to do."""
    debug = c.w.debug
    if debug is None:
        return PREPARE[sink.name](c, sink, index)
    with debug.inside(sink):
        act = PREPARE[sink.name](c, sink, index)

    def described() -> None:
        with debug.inside(sink):
            act()

    return described


def _write(c: Context, sink: Write, index: Index) -> Act:
    buffer = sink.buffer
    lane = evaluate(c, sink.value, index)
    inside = index[-1:] if sink.row else index
    address = buffer_address(c, Uniform(c.scalar(buffer), 0), tile_of(buffer.type), inside)
    return write(c, address, lane, None, element_of(sink.value.type))


def _store(c: Context, sink: Store | GuardedStore, index: Index) -> Act:
    buffer = sink.buffer if isinstance(sink, GuardedStore) else None
    address = evaluate(c, sink.pointer, index)
    element = element_of(sink.value.type)
    lane = evaluate(c, sink.value, index)
    mask = None if sink.mask is None else evaluate(c, sink.mask, index)
    if c.moved is not None and isinstance(address, Address) and not is_chunked(address):
        c.moved.stores.append(address)
    if buffer is not None:
        place = buffer_address(c, Uniform(c.scalar(buffer), 0), tile_of(buffer.type), index)
        address = redirected(c, address, place)
    return write(c, address, lane, mask, element, stream=True)


def _atomic(c: Context, sink: AtomicRmw | AtomicCas, index: Index) -> Act:
    operands = [evaluate(c, v, index) for v in sink.operands]
    return lambda: emit_atomic(c, sink, operands, index)


PREPARE: dict[str, Callable[[Context, Any, Index], Act]] = {
    "cpu.store": _store,
    "cpu.write": _write,
    "tt.atomic_cas": _atomic,
    "tt.atomic_rmw": _atomic,
    "tt.store": _store,
}
