"""Barriers in shared memory, clusters and fences: `ttng.init_barrier`, `ttng.fence_async_shared`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.ttng_rules import verify_barriers, verify_cluster
from tilewright.ir.attributes import Number
from tilewright.ir.declare import Effect, declare
from tilewright.ir.types import i1, i32

_ORDER = {"effect": Effect.READ_WRITE}

declare(
    "ttng.init_barrier",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    effect=Effect.WRITE,
    **assembly(" %alloc, #count{} : !alloc", "alloc"),
)
declare(
    "ttng.inval_barrier",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    effect=Effect.WRITE,
    **assembly(" %alloc{} : !alloc", "alloc"),
)
declare(
    "ttng.barrier_expect",
    buffers=Effect.WRITE,
    synchronizes=True,
    verify=verify_barriers,
    **_ORDER,
    **assembly(" %alloc, #size{}, %pred : !alloc", "alloc pred", types={"pred": i1}),
)
declare(
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
declare(
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
declare(
    "ttng.async_copy_mbarrier_arrive",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    **_ORDER,
    **assembly(" %barrier{} : !barrier", "barrier"),
)

# Fences and clusters

declare("ttng.fence_async_shared", required=("bCluster",), **_ORDER, **assembly("{}"))
declare("ttng.fence_mbarrier_init_release_cluster", verify=verify_cluster, **_ORDER, **assembly("{}"))
declare(
    "ttng.cluster_barrier",
    synchronizes=True,
    verify=verify_cluster,
    **_ORDER,
    **assembly("{}", defaults={"relaxed": False}),
)
declare("ttng.cluster_arrive", verify=verify_cluster, required=("relaxed",), **_ORDER, **assembly("{}"))
declare("ttng.cluster_wait", synchronizes=True, verify=verify_cluster, **_ORDER, **assembly("{}"))

# Taking over the work of a cluster that has not started

declare("ttng.clc_try_cancel_sync", **_ORDER, **assembly("{} : !response", "", "response"))
declare(
    "ttng.clc_try_cancel",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    **_ORDER,
    **assembly(" %result, %mbarrier{} : !result, !mbarrier", "result mbarrier"),
)
declare(
    "ttng.clc_load_result",
    buffers=Effect.READ,
    effect=Effect.READ,
    **assembly(" %src{} : !src -> !clcResult", "src", "clcResult"),
)
declare("ttng.clc_is_canceled", **assembly(" %clcResult{} : !clcResult -> !is_canceled", "clcResult", "is_canceled"))
declare(
    "ttng.clc_get_program_id",
    required=("dim",),
    **assembly(" %clcResult, @dim{} : !clcResult -> !result", "clcResult", "result"),
)
