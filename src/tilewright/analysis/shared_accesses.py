"""Which buffers in shared memory an op reads and writes, and which ops make all warps wait.

ttg.local_load %a                            reads %a
ttg.local_alloc %tile                        writes its result
ttng.tc_gen5_mma %a, %b, %acc, …, %bar       reads %a and %b, writes the barrier %bar
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.dialects.ttg_attributes import SHARED_MEMORY
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Op, Value
from tilewright.ir.types import MemDescType, i64


class Access(NamedTuple):
    """One buffer that an op reads or writes, under the name it has there."""

    value: Value
    is_write: bool


_PRODUCTS = frozenset({"ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"})
TMA_LOADS = frozenset({"ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather"})
_TMA_STORES = frozenset(
    {"ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce", "ttng.async_tma_scatter"},
)
BARRIER_OPS = frozenset({"ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect"})
"""One thread executes them, so they follow each other without help."""

_READERS = _PRODUCTS | _TMA_STORES | {"ttg.local_load", "ttg.local_gather", "ttng.tmem_copy", "ttng.clc_load_result"}
_WRITERS = (
    TMA_LOADS
    | BARRIER_OPS
    | {
        *("ttg.local_store", "ttg.local_scatter", "ttg.async_copy_global_to_local"),
        *("ttng.async_copy_mbarrier_arrive", "ttng.async_shared_store", "ttng.tc_gen5_commit", "ttng.clc_try_cancel"),
    }
)
_BOTH = frozenset({"ttg.local_atomic_scatter_rmw", "ttng.wait_barrier", "ttng.arrive_barrier"})

_SYNCHRONIZING = frozenset(
    {
        *("gpu.barrier", "ttng.cluster_barrier", "ttng.cluster_wait", "ttg.warp_specialize.partitions"),
        *("ttng.arrive_barrier", "ttng.barrier_expect", "ttng.tc_gen5_commit"),
        "ttng.tensormap_fenceproxy_acquire",  # one warp fences, and all wait for it
    }
)
WAITS = frozenset({"ttg.async_wait", "ttng.async_tma_store_wait"})
"""After them data is there for the thread that waited, but perhaps not yet for the others."""


def shared_accesses(op: Op) -> Iterator[Access]:
    """What `op` reads and writes in shared memory, its scratch memory aside."""
    if op.name == "ttg.local_alloc":
        if op.operands:
            yield Access(op.results[0], is_write=True)
        return
    reads, writes = op.name in _READERS or op.name in _BOTH, op.name in _WRITERS or op.name in _BOTH
    for value in op.operands if reads or writes else ():
        type = value.type
        if isinstance(type, MemDescType) and type.space == SHARED_MEMORY:
            signals = op.name in _PRODUCTS and type.element is i64
            if writes or signals:
                yield Access(value, is_write=True)
            if reads and not signals:
                yield Access(value, is_write=False)


def synchronizes(op: Op | None) -> bool:
    """Whether all warps have finished with shared memory before anything after `op` begins."""
    if op is None or op.name != "ttg.barrier":
        return op is not None and op.name in _SYNCHRONIZING
    scopes = op.attributes.get("addrSpace", ())
    return isinstance(scopes, tuple) and any(scope in (Keyword("local"), Keyword("all")) for scope in scopes)
