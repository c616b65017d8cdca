"""Barriers in shared memory that count arrivals and bytes, and barriers of clusters.

ttng.barrier_expect %b, 8192, %p            bar.sync 0;  @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [ %b ], 8192;
ttng.wait_barrier %b, %phase                mbarrier.try_wait.parity in a loop, by every thread

One thread sets up, arrives and invalidates.
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.buffers import buffer_layout, buffer_pointer
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, WARP, Lowerer, Lowering
from tilewright.backends.nvidia.lower.memory import both
from tilewright.backends.nvidia.lower.shared_tiles import demand_all_warps
from tilewright.dialects.ttng_barriers import (
    ArriveBarrier,
    AsyncCopyMbarrierArrive,
    BarrierExpect,
    ClusterArrive,
    ClusterBarrier,
    FenceAsyncShared,
    InitBarrier,
    MemoryBarrier,
    WaitBarrier,
)
from tilewright.ir.core import Op, Value, buffer_type

ELECTS_SINCE = 90
"""The first compute capability that can choose one thread of a warp, and wait for barriers without polling."""
TRUE = ("true", "1")
WAIT = """{
	.reg .pred complete;
	waitLoop:
	mbarrier.%s.parity.shared::cta.b64 complete, [ $0 ], $1;%s
	@!complete bra.uni waitLoop;
}"""
POLLING = "\n\t@!complete nanosleep.u32 20;"


def elected(lowerer: Lowerer, warps: int = 1) -> str:
    """An i1 that holds in one thread of each of the first `warps` warps; the assembler sees that it is one."""
    w = lowerer.w

    def chosen() -> str:
        if lowerer.target.capability < ELECTS_SINCE:
            return w.emit(f"icmp eq i32 {lowerer.lane()}, 0")
        found = w.call("{ i32, i1 }", "llvm.nvvm.elect.sync", [("i32", "-1")])
        return w.emit(f"extractvalue {{ i32, i1 }} {found}, 1")

    one = lowerer.once("elected", chosen)
    if warps >= lowerer.target.num_warps:
        return one
    within = lowerer.once(("warps", warps), lambda: w.emit(f"icmp ult i32 {lowerer.thread()}, {WARP * warps}"))
    return lowerer.once(("elected", warps), lambda: w.emit(f"and i1 {one}, {within}"))


def first_thread(lowerer: Lowerer) -> str:
    """An i1 that holds in the first thread of the block."""
    return lowerer.once("first", lambda: lowerer.w.emit(f"icmp eq i32 {lowerer.thread()}, 0"))


def on_condition(lowerer: Lowerer, condition: str, predicate: Value | None) -> str:
    """Both `condition` and the op's own predicate, if it has one."""
    own = lowerer.scalar(predicate) if predicate is not None else "true"
    return condition if own in TRUE else both(lowerer, condition, own) or condition


def barrier_address(lowerer: Lowerer, barrier: Value) -> str:
    """The address of a barrier."""
    return buffer_pointer(lowerer, barrier)


def _by_one(lowerer: Lowerer, op: MemoryBarrier, condition: str, text: str) -> None:
    """One thread's instruction on the op's barrier, `$1`."""
    if buffer_layout(buffer_type(op.barrier)).free_masks().get("block"):
        raise refused(op, f"{op.name} of several blocks", "each block has its own")
    operands = [("i1", condition), (SHARED_POINTER, barrier_address(lowerer, op.barrier))]
    lowerer.assembly(f"@$0 {text}", operands)


def _init(lowerer: Lowerer, op: InitBarrier) -> None:
    _by_one(lowerer, op, elected(lowerer), f"mbarrier.init.shared::cta.b64 [ $1 ], {op.count};")


def _expect(lowerer: Lowerer, op: BarrierExpect) -> None:
    """All threads come here first, because what was in the buffer may be overwritten from now on."""
    lowerer.barrier()
    condition = on_condition(lowerer, first_thread(lowerer), op.predicate)
    _by_one(lowerer, op, condition, f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [ $1 ], {op.size};")


def _arrive(lowerer: Lowerer, op: ArriveBarrier) -> None:
    lowerer.barrier()
    condition = on_condition(lowerer, first_thread(lowerer), op.predicate)
    count = op.count
    _by_one(lowerer, op, condition, f"mbarrier.arrive.shared::cta.b64 _, [ $1 ]{f', {count}' if count > 1 else ''};")


def _wait(lowerer: Lowerer, op: WaitBarrier) -> None:
    """Let every thread wait until the phase of this parity is complete."""
    polls = lowerer.target.capability < ELECTS_SINCE
    text = WAIT % (("test_wait", POLLING) if polls else ("try_wait", ""))
    operands = [(SHARED_POINTER, barrier_address(lowerer, op.barrier)), ("i32", lowerer.scalar(op.phase))]
    condition = lowerer.scalar(op.predicate) if op.predicate is not None else "true"
    with lowerer.where(None if condition in TRUE else condition):
        lowerer.assembly(text, operands)


def _arrive_after_copies(lowerer: Lowerer, op: AsyncCopyMbarrierArrive) -> None:
    """Let each thread arrive when its asynchronous copies are complete."""
    kind = ".noinc" if op.without_increment else ""
    operands = [(SHARED_POINTER, barrier_address(lowerer, op.barrier))]
    lowerer.assembly(f"cp.async.mbarrier.arrive{kind}.shared.b64 [ $0 ];", operands)


def _fence_init(lowerer: Lowerer, op: Op) -> None:
    lowerer.assembly("@$0 fence.mbarrier_init.release.cluster;", [("i1", first_thread(lowerer))])


def _cluster_arrive(lowerer: Lowerer, op: ClusterArrive | ClusterBarrier) -> None:
    demand_all_warps(lowerer)
    relaxed = ".relaxed" if op.relaxed else ""
    lowerer.assembly(f"barrier.cluster.arrive{relaxed}.aligned;", [])


def _cluster_wait(lowerer: Lowerer, op: Op) -> None:
    demand_all_warps(lowerer)
    lowerer.assembly("barrier.cluster.wait.aligned;", [])


def _cluster_barrier(lowerer: Lowerer, op: ClusterBarrier) -> None:
    _cluster_arrive(lowerer, op)
    _cluster_wait(lowerer, op)


def _fence(lowerer: Lowerer, op: FenceAsyncShared) -> None:
    scope = "cluster" if op.cluster else "cta"
    lowerer.w.call_void(f"llvm.nvvm.fence.proxy.async.shared_{scope}", [])


LOWERINGS: dict[str, Lowering] = {
    "gpu.barrier": lambda lowerer, op: lowerer.barrier(),
    "ttg.barrier": lambda lowerer, op: lowerer.barrier(),
    "ttng.fence_async_shared": _fence,
    "ttng.arrive_barrier": _arrive,
    "ttng.async_copy_mbarrier_arrive": _arrive_after_copies,
    "ttng.barrier_expect": _expect,
    "ttng.cluster_arrive": _cluster_arrive,
    "ttng.cluster_barrier": _cluster_barrier,
    "ttng.cluster_wait": _cluster_wait,
    "ttng.fence_mbarrier_init_release_cluster": _fence_init,
    "ttng.init_barrier": _init,
    "ttng.inval_barrier": lambda lowerer, op: _by_one(
        lowerer, op, elected(lowerer), "mbarrier.inval.shared::cta.b64 [ $1 ];"
    ),
    "ttng.wait_barrier": _wait,
}
