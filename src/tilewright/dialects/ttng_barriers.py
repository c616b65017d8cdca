"""Barriers in shared memory, clusters and fences: `ttng.init_barrier`, `ttng.fence_async_shared`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.ttng_rules import verify_barriers, verify_cluster
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declare, declares
from tilewright.ir.fields import (
    Flag,
    Integer,
    Marker,
    NamedOperands,
    Operand,
    OptionalNamedOperand,
    OptionalOperand,
    Word,
)
from tilewright.ir.types import i1, i32

_ORDER = {"effect": Effect.READ_WRITE}
ITSELF = -1
"""The mask of all bits, with which each CTA signals its own barrier."""
BY_WARPS = "perWarp"
"""The attribute of an arrival of each warp."""


class MemoryBarrier(Op):
    """An op on `barrier`, a barrier in shared memory."""

    __slots__ = ()
    barrier = Operand(0)


@declares(
    "ttng.init_barrier",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    effect=Effect.WRITE,
    **assembly(" %alloc, #count{} : !alloc", "alloc"),
)
class InitBarrier(MemoryBarrier):
    """Turns memory into a barrier that counts `count` arrivals in each phase."""

    __slots__ = ()
    count = Integer("count")


@declares(
    "ttng.inval_barrier",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    effect=Effect.WRITE,
    **assembly(" %alloc{} : !alloc", "alloc"),
)
class InvalBarrier(MemoryBarrier):
    """Turns a barrier into plain memory again."""

    __slots__ = ()


@declares(
    "ttng.barrier_expect",
    buffers=Effect.WRITE,
    synchronizes=True,
    verify=verify_barriers,
    **_ORDER,
    **assembly(" %alloc, #size{}, %pred : !alloc", "alloc pred", types={"pred": i1}),
)
class BarrierExpect(MemoryBarrier):
    """Makes a barrier wait for `size` more bytes in this phase, and arrives once, if `predicate` holds.

    Only CTAs whose numbers have no other bits than `from_cta` do so, each at the barriers of all CTAs that differ from
    it in the other bits.
    """

    __slots__ = ()
    predicate = Operand(1)
    size = Integer("size")
    from_cta = Integer("fromCTA", ITSELF)


@declares(
    "ttng.wait_barrier",
    buffers=Effect.READ_WRITE,
    verify=verify_barriers,
    **_ORDER,
    **assembly(
        " %alloc, %phase?(, %pred)?( deps %deps*){} : !alloc?(, !deps*)",
        "alloc phase pred? deps*",
        types={"phase": i32, "pred": i1},
    ),
)
class WaitBarrier(MemoryBarrier):
    """Waits for the end of a phase if `predicate` holds; `dependencies` are buffers that must live so long."""

    __slots__ = ()
    phase = Operand(1)
    predicate = OptionalNamedOperand("pred")
    dependencies = NamedOperands("deps")


@declares(
    "ttng.arrive_barrier",
    buffers=Effect.READ_WRITE,
    synchronizes=True,
    verify=verify_barriers,
    **_ORDER,
    **assembly(
        " %alloc, #count?(, %pred){} : !alloc",
        "alloc pred?",
        types={"pred": i1},
        defaults={"multicastCTA": Number(0, i32)},
    ),
)
class ArriveBarrier(MemoryBarrier):
    """Counts `count` arrivals, if `predicate` holds; `from_cta` as in `BarrierExpect`.

    One thread arrives when all warps have come. With `by_warps` each of the `count` warps arrives when it has come
    itself, and what it has waited for before is not completed once more without that arrival.
    """

    __slots__ = ()
    predicate = OptionalOperand(1)
    count = Integer("count")
    from_cta = Integer("fromCTA", ITSELF)
    by_warps = Marker(BY_WARPS)


@declares(
    "ttng.async_copy_mbarrier_arrive",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    **_ORDER,
    **assembly(" %barrier{} : !barrier", "barrier"),
)
class AsyncCopyMbarrierArrive(MemoryBarrier):
    """Arrives at a barrier when the copies of this thread are done."""

    __slots__ = ()
    without_increment = Marker("noIncrement")


# Fences and clusters


@declares("ttng.fence_async_shared", required=("bCluster",), **_ORDER, **assembly("{}"))
class FenceAsyncShared(Op):
    """Copies and products that run on see what was written to shared memory, that of the cluster if `cluster`."""

    __slots__ = ()
    cluster = Flag("bCluster")


@declares(
    "ttng.cluster_barrier",
    synchronizes=True,
    verify=verify_cluster,
    **_ORDER,
    **assembly("{}", defaults={"relaxed": False}),
)
class ClusterBarrier(Op):
    """A barrier of all threads of a cluster."""

    __slots__ = ()
    relaxed = Flag("relaxed")


@declares(
    "ttng.cluster_arrive",
    verify=verify_cluster,
    required=("relaxed",),
    **_ORDER,
    **assembly("{}", implied={"relaxed": False}),
)
class ClusterArrive(Op):
    """The first half of a cluster barrier: threads arrive and go on."""

    __slots__ = ()
    relaxed = Flag("relaxed")


# Taking over the work of a cluster that has not started


@declares(
    "ttng.clc_try_cancel",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    **_ORDER,
    **assembly(" %result, %mbarrier{} : !result, !mbarrier", "result mbarrier"),
)
class ClcTryCancel(Op):
    """Requests the work of a cluster that has not started, writes the answer to `response`, arrives at `barrier`."""

    __slots__ = ()
    response, barrier = Operand(0), Operand(1)


@declares(
    "ttng.clc_load_result",
    buffers=Effect.READ,
    effect=Effect.READ,
    **assembly(" %src{} : !src -> !clcResult", "src", "clcResult"),
)
class ClcLoadResult(Op):
    """Reads the answer to such a request from `response`."""

    __slots__ = ()
    response = Operand(0)


declare("ttng.fence_mbarrier_init_release_cluster", verify=verify_cluster, **_ORDER, **assembly("{}"))
declare("ttng.cluster_wait", synchronizes=True, verify=verify_cluster, **_ORDER, **assembly("{}"))


declare("ttng.clc_try_cancel_sync", **_ORDER, **assembly("{} : !response", "", "response"))


@declares(
    "ttng.clc_is_canceled",
    **assembly(" %clcResult{} : !clcResult -> !is_canceled", "clcResult", "is_canceled"),
)
class ClcIsCanceled(Op):
    """Whether the answer has a cluster."""

    __slots__ = ()
    answer = Operand(0)


@declares(
    "ttng.clc_get_program_id",
    required=("dim",),
    **assembly(" %clcResult, @dim{} : !clcResult -> !result", "clcResult", "result"),
)
class ClcGetProgramId(Op):
    """The number of the answer's cluster along axis `dim`, x, y or z."""

    __slots__ = ()
    answer = Operand(0)
    dim = Word("dim")
