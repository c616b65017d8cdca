"""The buffers in shared memory that an op reads and writes, and the ops that make all warps wait.

ttg.local_load %a                            reads %a
ttg.local_alloc %tile                        writes its result
ttng.tc_gen5_mma %a, %b, %acc, …, %bar       reads %a and %b, writes the barrier %bar
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.dialects.ttg_async import AsyncWait
from tilewright.dialects.ttg_attributes import SHARED_MEMORY
from tilewright.dialects.ttg_memory import LocalAlloc
from tilewright.dialects.ttg_program import ScopedBarrier
from tilewright.dialects.ttng_barriers import BarrierExpect, InitBarrier, InvalBarrier
from tilewright.dialects.ttng_descriptors import AsyncTmaCopyGlobalToLocal, AsyncTmaGather, AsyncTmaStoreWait
from tilewright.dialects.ttng_mma import AsyncMma
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect
from tilewright.ir.types import MemDescType, i64


class Access(NamedTuple):
    """One buffer that an op reads or writes, under the name it has there."""

    value: Value
    is_write: bool


TMA_LOADS = (AsyncTmaCopyGlobalToLocal, AsyncTmaGather)
BARRIER_OPS = (InitBarrier, InvalBarrier, BarrierExpect)
"""Ops that one thread executes, so that they follow each other without help."""
WAITS = (AsyncWait, AsyncTmaStoreWait)
"""Ops after which data is there for the thread that waited, but perhaps not yet for the others."""


def shared_accesses(op: Op) -> Iterator[Access]:
    """The accesses of `op` to shared memory, its scratch memory aside."""
    if isinstance(op, LocalAlloc):
        if op.source is not None:
            yield Access(op.result, is_write=True)
        return
    effect = op.definition.buffers
    reads, writes = effect in (Effect.READ, Effect.READ_WRITE), effect in (Effect.WRITE, Effect.READ_WRITE)
    for value in op.operands if effect is not Effect.NONE else ():
        type = value.type
        if isinstance(type, MemDescType) and type.space == SHARED_MEMORY:
            signals = isinstance(op, AsyncMma) and type.element is i64
            if writes or signals:
                yield Access(value, is_write=True)
            if reads and not signals:
                yield Access(value, is_write=False)


def synchronizes(op: Op | None) -> bool:
    """Whether all warps have finished with shared memory before anything after `op` begins."""
    if isinstance(op, ScopedBarrier):
        return "local" in op.scopes or "all" in op.scopes
    return op is not None and op.definition.synchronizes
