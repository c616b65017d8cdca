"""Proxy fences between stores of threads to shared memory and engines that read it.

    ttg.local_store %x, %a                               ttg.local_store %x, %a
    ttng.async_tma_copy_local_to_global %d[…] %a         ttng.fence_async_shared {bCluster = false}
                                                         ttg.barrier local
                                                         ttng.async_tma_copy_local_to_global %d[…] %a

Copies by descriptors and products access shared memory through the asynchronous proxy, which does not see stores of
threads without a fence. A program of Gluon may leave the fence out, since Triton inserts one there. The pass tracks
stores as `membar` does: through loops and branches, by the memory ranges of buffers.
"""

from __future__ import annotations

from tilewright.analysis.buffer_aliases import shared_accesses
from tilewright.analysis.scratch_memory import scratch_bytes
from tilewright.analysis.shared_memory import ScratchSize
from tilewright.dialects.ttng_barriers import FenceAsyncShared, MemoryBarrier
from tilewright.dialects.ttng_descriptors import DescriptorCopy, DescriptorCopyOut
from tilewright.dialects.ttng_mma import AsyncMma
from tilewright.dialects.ttng_tensor_memory import TmemCopy
from tilewright.ir.core import Op
from tilewright.ir.types import MemDescType, i64
from tilewright.transforms.gpu.membar import Calls, Membar, State, run_on_functions, slice_of

READERS = (AsyncMma, TmemCopy, DescriptorCopyOut)
"""Ops whose engines read shared memory."""
NO_STORES = (*READERS, DescriptorCopy, MemoryBarrier)
"""Ops that store nothing an engine reads: engines themselves write, or what is written is a barrier."""


def proxy_fences(module: Op, scratch: ScratchSize = scratch_bytes) -> bool:
    """Insert missing fences between stores of threads and the engines that read them."""
    if not any(isinstance(op, READERS) for op in module.walk()):
        return False
    return run_on_functions(_ProxyFences, module, scratch)


class _ProxyFences(Membar):
    """The pass over one function: pending are stores behind which there was no fence, reads are those of engines."""

    def visit(self, op: Op, state: State) -> None:
        if isinstance(op, FenceAsyncShared):
            state.settle()
        now, left = self.accesses(op)
        if state.conflicts(now):
            assert op.block is not None, "an op of a function is in a block"
            fence = Op.create("ttng.fence_async_shared", attributes={"bCluster": False}, location=op.location)
            op.block.insert(fence, op)
            self.put_barrier(op, before=op)
            state.settle()
        if state.from_start:
            self.first.join(now)
        state.join(left)

    def accesses(self, op: Op) -> Calls:
        called = self.of_called(op)
        if called is not None:
            return called
        reads, stores = State(), State()
        for value, is_write in shared_accesses(op):
            type = value.type
            is_barrier = isinstance(type, MemDescType) and type.element is i64 and isinstance(op, (AsyncMma, TmemCopy))
            for buffer in self.allocation.named_by(value) if not is_barrier else ():
                if isinstance(op, READERS) and not is_write:
                    reads.add(slice_of(value, buffer), op, is_write=False)
                elif is_write and not isinstance(op, NO_STORES):
                    stores.add(slice_of(value, buffer), op, is_write=True)
        return Calls(reads, stores)
