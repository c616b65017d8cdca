"""Barriers of all threads of a block, and fences between kinds of accesses to shared memory.

ttg.barrier local                                 bar.sync 0
ttng.fence_async_shared {bCluster = false}        fence.proxy.async.shared::cta
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.dialects.ttng_barriers import FenceAsyncShared
from tilewright.ir.core import Op


def _barrier(lowerer: Lowerer, op: Op) -> None:
    lowerer.barrier()


def _fence(lowerer: Lowerer, op: FenceAsyncShared) -> None:
    scope = "cluster" if op.cluster else "cta"
    lowerer.w.call_void(f"llvm.nvvm.fence.proxy.async.shared_{scope}", [])


LOWERINGS: dict[str, Lowering] = {
    "gpu.barrier": _barrier,
    "ttg.barrier": _barrier,
    "ttng.fence_async_shared": _fence,
}
