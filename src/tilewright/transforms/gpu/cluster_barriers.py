"""Cluster barriers where CTAs use each other's barriers or shared memory.

    ttng.init_barrier %b, 1                              ttng.init_barrier %b, 1
    ttng.barrier_expect %b, …                            ttng.fence_mbarrier_init_release_cluster
                                                         ttng.cluster_barrier {relaxed = true}
                                                         ttng.barrier_expect %b, …

A barrier that another CTA signals must be initialised before that. Accesses of another CTA to a CTA's shared memory
must be complete before other buffers use the memory, and before the CTA ends; the program itself must order accesses to
one buffer. Programs of Gluon may leave out both, since Triton inserts both there. CTA pairs need nothing at the end:
they synchronise when they free their tensor memory.
"""

from __future__ import annotations

from tilewright.analysis.buffer_aliases import TMA_LOADS, shared_accesses
from tilewright.analysis.scratch_memory import scratch_bytes
from tilewright.analysis.shared_memory import ScratchSize
from tilewright.dialects.builtin import Barrier
from tilewright.dialects.rules import number
from tilewright.dialects.tt_function import Return
from tilewright.dialects.ttg_memory import MemDescView
from tilewright.dialects.ttng_barriers import (
    ITSELF,
    ArriveBarrier,
    BarrierExpect,
    ClcTryCancel,
    ClusterBarrier,
    InitBarrier,
)
from tilewright.dialects.ttng_descriptors import AsyncSharedStore
from tilewright.dialects.ttng_mma import TensorCoreCommit, TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemCopy
from tilewright.ir.core import Block, Op, buffer_type
from tilewright.ir.types import MemDescType, i64
from tilewright.layouts.encoding import encoding
from tilewright.layouts.queries import cga_layout
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.membar import Calls, Membar, Slice, State, run_on_functions
from tilewright.transforms.gpu.tile_ops import works_in_pairs
from tilewright.transforms.op_builder import OpBuilder

PAIR_OPS = (TensorCoreMma, TensorCoreCommit, TmemCopy)
"""Ops that reach the memory and the barriers of both CTAs of a pair."""


def cluster_barriers(module: Op, scratch: ScratchSize = scratch_bytes) -> bool:
    """Insert cluster barriers where Triton does."""
    if number(module, "ttg.num-ctas") < 2 or not any(_reaches_others(op) for op in module.walk()):
        return False
    for function in functions_of(module):
        for block in function.regions[0].blocks:
            _meet_after_inits(block, is_pending=False)
    run_on_functions(_ClusterBarriers, module, scratch)
    return True


def widen_barriers(module: Op) -> bool:
    """Let the barriers of a tile program wait for all CTAs that run it.

        gpu.barrier -> ttng.cluster_barrier

    One CTA may store what another one loads behind the barrier. (Triton waits for the threads of one CTA.)
    """
    barriers = [*module.ops_of(Barrier)]
    for barrier in barriers:
        OpBuilder(barrier).op("ttng.cluster_barrier", (), (), {"relaxed": False})
        barrier.erase()
    return bool(barriers)


def _uses_memory_of_others(op: Op) -> bool:
    """Whether an op has the shared memory of other CTAs read or written while it runs on."""
    if isinstance(op, TMA_LOADS):
        return op.multicast
    return isinstance(op, AsyncSharedStore) or (isinstance(op, PAIR_OPS) and works_in_pairs(op))


def _reaches_others(op: Op) -> bool:
    """Whether an op uses the memory, or signals the barriers, of other CTAs."""
    signals = isinstance(op, TensorCoreMma) and op.multicast
    signals |= isinstance(op, TensorCoreCommit) and bool(op.buffers)
    signals |= isinstance(op, (ArriveBarrier, BarrierExpect)) and op.from_cta != ITSELF
    if isinstance(op, InitBarrier):  # of CTAs that share it
        return any(not any(step) for step in cga_layout(encoding(buffer_type(op.barrier).encoding)))
    return signals or isinstance(op, ClcTryCancel) or _uses_memory_of_others(op)


# After barriers have been set up


def _meet_after_inits(block: Block, *, is_pending: bool) -> bool:
    """Put a cluster barrier between initialisations of barriers and their first use; returns whether one is pending."""
    for op in list(block):
        if isinstance(op, ClusterBarrier) and is_pending:
            _fence(block, op)
            is_pending = False
        elif is_pending and _uses_barriers(op):
            _fence(block, op)
            block.insert(Op.create("ttng.cluster_barrier", attributes={"relaxed": True}, location=op.location), op)
            is_pending = False
        is_pending |= isinstance(op, InitBarrier)
        for region in op.regions:
            for inner in region.blocks:
                is_pending |= _meet_after_inits(inner, is_pending=is_pending)
    return is_pending


def _fence(block: Block, before: Op) -> None:
    block.insert(Op.create("ttng.fence_mbarrier_init_release_cluster", location=before.location), before)


def _uses_barriers(op: Op) -> bool:
    """Whether an op, or one inside it, uses a barrier for something else than setting it up."""
    return any(
        isinstance(value.type, MemDescType) and value.type.element is i64
        for inner in op.walk()
        if not isinstance(inner, (InitBarrier, MemDescView))
        for value in inner.operands
    )


# Before memory that others use is used otherwise


class _ClusterBarriers(Membar):
    """The pass over one function; pending are accesses since the CTAs met."""

    def visit(self, op: Op, state: State) -> None:
        if isinstance(op, ClusterBarrier) or op.name == "ttng.cluster_wait":
            state.settle()
        now = self.accesses(op).left
        ends = isinstance(op, Return) and not works_in_pairs(op) and _of_others(state) != State()
        if ends or _of_others(state).conflicts(now) or state.conflicts(_of_others(now)):
            self.put_barrier(op, before=op)
            state.settle()
        state.join(now)

    def put_barrier(self, op: Op, before: Op | None) -> None:
        assert op.block is not None, "an op of a function is in a block"
        op.block.insert(Op.create("ttng.cluster_barrier", attributes={"relaxed": False}, location=op.location), before)
        self.inserted = True

    def accesses(self, op: Op) -> Calls:
        called = self.of_called(op)
        if called is not None:
            return Calls(called.left, called.left)
        now = State()
        for value, is_write in shared_accesses(op):
            for buffer in self.allocation.named_by(value):
                now.add(Slice(buffer.span, owner=buffer.owner), op, is_write=is_write)
        for buffer in self.allocation.of(op):
            if buffer.kind == "scratch":
                now.add(Slice(buffer.span, owner=op), op, is_write=True)
        return Calls(now, now)


def _of_others(state: State) -> State:
    """The accesses that reach the memory of other CTAs."""
    found = State()
    for mine, theirs in ((state.reads, found.reads), (state.writes, found.writes)):
        for where, ops in mine.items():
            chosen = frozenset(op for op in ops if _uses_memory_of_others(op))
            if chosen:
                theirs[where] = chosen
    return found
