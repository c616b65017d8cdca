"""Barriers in shared memory that count arrivals and bytes, and barriers of clusters.

ttng.barrier_expect %b, 8192, %p            bar.sync 0;  @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [ %b ], 8192;
ttng.wait_barrier %b, %phase                mbarrier.try_wait.parity in a loop, by every thread

One thread initialises the barrier, arrives and invalidates it. CTAs of a cluster may share a barrier, which is that of
the first of them: all arrive there, and only the first one waits.

ttng.barrier_expect %b, 8192, %p            %l = and %b, ~0x01000000     of pairs of CTAs: the even one's
                                            @%q mbarrier.arrive.expect_tx.shared::cluster.b64 _, [ %l ], 8192;

One CTA may also arrive at the barriers of several, by a thread for each:

ttng.arrive_barrier %b, 1 {fromCTA = 0}     @%q mbarrier.arrive.shared::cluster.b64 _, [ %b ^ %thread << 24 ];
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.buffers import buffer_layout, buffer_pointer
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, WARP, Lowerer, Lowering
from tilewright.backends.nvidia.lower.memory import both
from tilewright.backends.nvidia.lower.shared_tiles import cluster_barrier
from tilewright.dialects.ttng_barriers import (
    ArriveBarrier,
    AsyncCopyMbarrierArrive,
    BarrierExpect,
    FenceAsyncShared,
    InitBarrier,
    MemoryBarrier,
    WaitBarrier,
)
from tilewright.ir.core import Op, Value, buffer_type

ELECTS_SINCE = 90
"""The first compute capability that can choose one thread of a warp, and wait for barriers without polling."""
TRUE = ("true", "1")
RANK = 24
"""The lowest bit of the number of a CTA in an address of a cluster's shared memory, as hardware has it."""
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


def sharers(barrier: Value) -> int:
    """The bits of the number of a CTA in which those that share a barrier differ."""
    return buffer_layout(buffer_type(barrier)).free_masks().get("block", 0)


def first_of(lowerer: Lowerer, bits: int, condition: str = "true") -> str:
    """The condition, in the first of the CTAs that differ in these bits of their numbers."""
    if not bits:
        return condition
    w = lowerer.w
    number = w.emit(f"and i32 {lowerer.block_in_cluster()}, {bits}")
    first = w.emit(f"icmp eq i32 {number}, 0")
    return first if condition in TRUE else w.emit(f"and i1 {condition}, {first}")


def group_mask(lowerer: Lowerer, bits: int) -> str:
    """A mask with the CTAs of this one's group, those that differ in these bits of their numbers; an i32."""
    pattern = 1
    for bit in range(bits.bit_length()):
        pattern |= pattern << (1 << bit) if bits >> bit & 1 else 0
    if bits == lowerer.target.num_ctas - 1:
        return str(pattern)
    w = lowerer.w
    first = w.emit(f"and i32 {lowerer.block_in_cluster()}, {lowerer.target.num_ctas - 1 & ~bits}")
    return w.emit(f"shl i32 {pattern}, {first}")


def barrier_address(lowerer: Lowerer, barrier: Value) -> str:
    """The address of a barrier, in the first of the CTAs that share it."""
    own, bits = buffer_pointer(lowerer, barrier), sharers(barrier)
    if not bits:
        return own
    w = lowerer.w
    number = w.emit(f"ptrtoint {SHARED_POINTER} {own} to i32")
    return w.emit(f"inttoptr i32 {w.emit(f'and i32 {number}, {~(bits << RANK)}')} to {SHARED_POINTER}")


def space_of(barrier: Value) -> str:
    """The space of a barrier's address."""
    return "shared::cluster" if sharers(barrier) else "shared::cta"


def _by_one(lowerer: Lowerer, op: MemoryBarrier, condition: str, text: str) -> None:
    """One thread's instruction on the op's barrier, `$1`."""
    operands = [("i1", condition), (SHARED_POINTER, barrier_address(lowerer, op.barrier))]
    lowerer.assembly(f"@$0 {text}", operands)


def _init(lowerer: Lowerer, op: InitBarrier) -> None:
    """A phase of a barrier that CTAs share ends after the arrivals of all of them."""
    bits = sharers(op.barrier)
    count = op.count << bits.bit_count()
    _by_one(lowerer, op, first_of(lowerer, bits, elected(lowerer)), f"mbarrier.init.shared::cta.b64 [ $1 ], {count};")


def _invalidate(lowerer: Lowerer, op: MemoryBarrier) -> None:
    condition = first_of(lowerer, sharers(op.barrier), elected(lowerer))
    _by_one(lowerer, op, condition, "mbarrier.inval.shared::cta.b64 [ $1 ];")


def _expect(lowerer: Lowerer, op: BarrierExpect) -> None:
    """All threads come here first, because what was in the buffer may be overwritten from now on."""
    _tell(lowerer, op, "arrive.expect_tx", f", {op.size}")


def _arrive(lowerer: Lowerer, op: ArriveBarrier) -> None:
    """Arrive once for each warp when its lanes have come here, or else for all warps at once."""
    if op.by_warps:
        lowerer.w.call_void("llvm.nvvm.bar.warp.sync", [("i32", "-1")])
        condition = on_condition(lowerer, elected(lowerer, lowerer.target.num_warps), op.predicate)
        _by_one(lowerer, op, condition, f"mbarrier.arrive.{space_of(op.barrier)}.b64 _, [ $1 ];")
        return
    _tell(lowerer, op, "arrive", f", {op.count}" if op.count > 1 else "")


def _tell(lowerer: Lowerer, op: BarrierExpect | ArriveBarrier, action: str, given: str) -> None:
    """Arrive at the own barrier, or those of several CTAs, when all threads have come here."""
    lowerer.barrier()
    if others := _other_ctas(lowerer, op):
        condition, address = _several(lowerer, op.barrier, others)
        operands = [("i1", on_condition(lowerer, condition, op.predicate)), (SHARED_POINTER, address)]
        lowerer.assembly(f"@$0 mbarrier.{action}.shared::cluster.b64 _, [ $1 ]{given};", operands)
    else:
        condition = on_condition(lowerer, first_thread(lowerer), op.predicate)
        _by_one(lowerer, op, condition, f"mbarrier.{action}.{space_of(op.barrier)}.b64 _, [ $1 ]{given};")


def _other_ctas(lowerer: Lowerer, op: BarrierExpect | ArriveBarrier) -> int:
    """The bits of the CTA number in which the CTAs differ whose barriers one CTA signals."""
    return lowerer.target.num_ctas - 1 & ~op.from_cta


def _several(lowerer: Lowerer, barrier: Value, others: int) -> tuple[str, str]:
    """An i1 that holds in one thread for each CTA that differs in the bits `others`, and the address of its barrier."""
    w, thread = lowerer.w, lowerer.thread()
    is_one = w.emit(f"icmp ult i32 {thread}, {1 << others.bit_count()}")
    number, taken = "0", 0
    for bit in range(others.bit_length()):
        if others >> bit & 1:
            moved = w.emit(f"shl i32 {w.emit(f'and i32 {thread}, {1 << taken}')}, {RANK + bit - taken}")
            number = w.emit(f"or i32 {number}, {moved}") if taken else moved
            taken += 1
    own = w.emit(f"ptrtoint {SHARED_POINTER} {buffer_pointer(lowerer, barrier)} to i32")
    address = w.emit(f"inttoptr i32 {w.emit(f'xor i32 {own}, {number}')} to {SHARED_POINTER}")
    return first_of(lowerer, others, is_one), address


def _wait(lowerer: Lowerer, op: WaitBarrier) -> None:
    """Let every thread wait until the phase of this parity is complete."""
    polls = lowerer.target.capability < ELECTS_SINCE
    text = WAIT % (("test_wait", POLLING) if polls else ("try_wait", ""))
    operands = [(SHARED_POINTER, buffer_pointer(lowerer, op.barrier)), ("i32", lowerer.scalar(op.phase))]
    condition = lowerer.scalar(op.predicate) if op.predicate is not None else "true"
    condition = first_of(lowerer, sharers(op.barrier), condition)
    with lowerer.where(None if condition in TRUE else condition):
        lowerer.assembly(text, operands)


def _arrive_after_copies(lowerer: Lowerer, op: AsyncCopyMbarrierArrive) -> None:
    """Let each thread arrive when its asynchronous copies are complete."""
    if sharers(op.barrier):
        raise refused(op, f"{op.name} of several blocks", "the copies of a thread signal a barrier of its own block")
    kind = ".noinc" if op.without_increment else ""
    operands = [(SHARED_POINTER, barrier_address(lowerer, op.barrier))]
    lowerer.assembly(f"cp.async.mbarrier.arrive{kind}.shared.b64 [ $0 ];", operands)


def _fence_init(lowerer: Lowerer, op: Op) -> None:
    lowerer.assembly("@$0 fence.mbarrier_init.release.cluster;", [("i1", first_thread(lowerer))])


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
    "ttng.cluster_arrive": lambda lowerer, op: cluster_barrier(lowerer, "arrive", relaxed=op.relaxed),
    "ttng.cluster_barrier": lambda lowerer, op: cluster_barrier(lowerer, relaxed=op.relaxed),
    "ttng.cluster_wait": lambda lowerer, op: cluster_barrier(lowerer, "wait"),
    "ttng.fence_mbarrier_init_release_cluster": _fence_init,
    "ttng.init_barrier": _init,
    "ttng.inval_barrier": _invalidate,
    "ttng.wait_barrier": _wait,
}
