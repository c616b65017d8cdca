"""`tt.histogram`: bins in shared memory, to which every thread adds its elements one by one.

@%p st.shared.b32 [bin of this thread], 0
barrier
@%q red.shared.add.u32 [bin of an element], 1        %q: there is such a bin, the mask, and no other thread has a copy
barrier
ld.shared.b32                                        the bins of this thread
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.backends.nvidia.lower.access_plan import plan_of
from tilewright.backends.nvidia.lower.gather import index_of
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering, scratch_offset
from tilewright.backends.nvidia.lower.memory import both, only_once
from tilewright.backends.nvidia.lower.reshapes import first_registers
from tilewright.backends.nvidia.lower.shared_tiles import Bytes, load_tile, offset
from tilewright.dialects.tt_shape import Histogram
from tilewright.ir.core import Value, tile_type
from tilewright.layouts.linear_layout import LinearLayout

COUNT, COUNT_BITS = 4, 32
"""Bytes and bits of a bin."""


def histogram(lowerer: Lowerer, op: Histogram) -> None:
    """Count how many elements have each value."""
    bins, scratch = tile_type(op.result).numel, lowerer.scratch(op)
    _clear(lowerer, scratch, bins)
    lowerer.barrier()
    for value, condition in _counted(lowerer, op.source, op.mask):
        _count(lowerer, scratch, bins, value, condition)
    lowerer.barrier()
    lowerer.bind(op.result, _bins(lowerer, op))


def _clear(lowerer: Lowerer, scratch: str, bins: int) -> None:
    """Let every thread clear some of the bins."""
    w, threads = lowerer.w, lowerer.target.threads
    own = offset(lowerer, scratch, w.emit(f"shl i32 {lowerer.thread()}, 2"))
    for start in range(0, bins, threads):
        place = offset(lowerer, own, start * COUNT)
        if bins - start >= threads:
            w.do(f"store i32 0, {SHARED_POINTER} {place}, align {COUNT}")
        else:
            left = w.emit(f"icmp ult i32 {lowerer.thread()}, {bins - start}")
            lowerer.assembly("void", "@$1 st.shared.b32 [ $0 ], 0;", "r,b", [(SHARED_POINTER, place), ("i1", left)])


def _counted(lowerer: Lowerer, source: Value, mask: Value | None) -> Iterator[tuple[str, str | None]]:
    """The elements that this thread counts, and on which condition."""
    values, masks = lowerer.registers(source), lowerer.registers(mask) if mask is not None else None
    alone = only_once(lowerer, source.type, per_block=True)
    for register in sorted(first_registers(lowerer.layout(source)).values()):
        value = index_of(lowerer, source, values[register])
        yield value, both(lowerer, alone, masks[register] if masks is not None else None)


def _count(lowerer: Lowerer, scratch: str, bins: int, value: str, condition: str | None) -> None:
    w = lowerer.w
    known = w.emit(f"icmp ult i32 {value}, {bins}")
    place = offset(lowerer, scratch, w.emit(f"shl i32 {value}, 2"))
    wanted = both(lowerer, known, condition) or known
    lowerer.assembly("void", "@$1 red.shared.add.u32 [ $0 ], 1;", "r,b", [(SHARED_POINTER, place), ("i1", wanted)])


def _bins(lowerer: Lowerer, op: Histogram) -> list[str]:
    layout = lowerer.layout(op.result)
    offsets = LinearLayout(layout.columns, (("offset", layout.shape[0]),))
    return load_tile(lowerer, "i32", plan_of(offsets, COUNT_BITS), Bytes(str(scratch_offset(op))))


LOWERINGS: dict[str, Lowering] = {"tt.histogram": histogram}
