"""Barriers between accesses to tensor memory by different warps.

    ttng.tmem_store %x, %m                               ttng.tmem_store %x, %m
    ttng.tc_gen5_mma %a, %b, %m, …                       ttg.barrier local
                                                         ttng.tc_gen5_mma %a, %b, %m, …

One thread starts products and copies, so earlier loads and stores of the other warps must be complete. Users of a
product's result wait for its mbarrier, so nothing is needed there. With four warps each has rows of its own; with more,
several access the same rows. The pass tracks accesses as `membar` does, and runs after it, so that it sees the existing
barriers.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.buffer_aliases import carried, synchronizes
from tilewright.analysis.live_ranges import Interval
from tilewright.analysis.scratch_memory import scratch_bytes
from tilewright.analysis.shared_memory import Allocation, ScratchSize
from tilewright.analysis.value_flow import Edge, propagate
from tilewright.dialects.ttg_attributes import TENSOR_MEMORY
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemCopy, TmemLoad, TmemStore, TmemSubslice
from tilewright.ir.core import Op, Value, buffer_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.tensor_memory import allocated, tensor_memory_encoding
from tilewright.transforms.gpu.membar import Calls, Membar, Slice, State, run_on_functions

EVERYWHERE = Interval(0, 1 << 16)
WARPS_WITH_OWN_ROWS = 4


def tensor_memory_barriers(module: Op, scratch: ScratchSize = scratch_bytes) -> bool:
    """Insert missing barriers between accesses to tensor memory."""
    if not any(isinstance(op, (TensorCoreMma, TmemCopy, TmemStore)) for op in module.walk()):
        return False
    return run_on_functions(_TensorMemoryBarriers, module, scratch)


def _edges(op: Op) -> Iterator[Edge]:
    if isinstance(op, TmemSubslice):
        yield op.source, op.result
    yield from carried(op)


class _TensorMemoryBarriers(Membar):
    """The pass over one function: pending are loads and stores of threads behind which there was no barrier."""

    def __init__(self, allocation: Allocation, calls: dict[Op, Calls]) -> None:
        super().__init__(allocation, calls)
        function = allocation.function
        made = {op.result: {op} for op in function.walk() if isinstance(op, TmemAlloc)}
        self._names: dict[Value, set[TmemAlloc]] = propagate(function.walk(), made, _edges)

    def visit(self, op: Op, state: State) -> None:
        starts = isinstance(op, (TensorCoreMma, TmemCopy))
        if synchronizes(op) or (isinstance(op, TensorCoreMma) and op.barriers):
            state.settle()
        now = self.accesses(op).left
        if (starts or warps_of(op) > WARPS_WITH_OWN_ROWS) and state.conflicts(now):
            self.put_barrier(op, before=op)
            state.settle()
        if not starts:
            state.join(now)

    def accesses(self, op: Op) -> Calls:
        now = State()
        for value, is_write in _accesses(op):
            for span in self._spans(value):
                now.add(Slice(span), op, is_write=is_write)
        return Calls(now, now)

    def _spans(self, value: Value) -> list[Interval]:
        """The columns that a buffer may have."""
        found = self._names.get(value)
        if not found:
            return [EVERYWHERE]
        spans = []
        for op in found:
            type = buffer_type(op.result)
            _, columns = allocated(tensor_memory_encoding(type.encoding), type.shape, type.element.bits)
            spans.append(Interval(op.column, op.column + columns))
        return spans


def _accesses(op: Op) -> Iterator[tuple[Value, bool]]:
    """The buffers in tensor memory that an op uses, and whether it writes them."""
    if isinstance(op, TmemLoad):
        yield op.buffer, False
    elif isinstance(op, TmemStore):
        yield op.buffer, True
    elif isinstance(op, TmemAlloc) and op.source is not None:
        yield op.result, True
    elif isinstance(op, (TensorCoreMma, TmemCopy)):
        written = op.accumulator if isinstance(op, TensorCoreMma) else op.target
        for value in op.operands:
            if isinstance(value.type, MemDescType) and value.type.space == TENSOR_MEMORY:
                yield value, value is written
