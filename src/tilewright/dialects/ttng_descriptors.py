"""Copies by tensor descriptor (TMA), and descriptors in memory: `ttng.async_tma_copy_global_to_local`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.ttg_async import CACHE_DEFAULTS, CACHE_OPTIONS
from tilewright.dialects.ttng_rules import verify_barriers, verify_copy, verify_rows_copy
from tilewright.ir.declare import Effect, declare
from tilewright.ir.types import IntType, i1, i32

_i16 = IntType(16)

declare(
    "ttng.async_tma_copy_global_to_local",
    buffers=Effect.WRITE,
    verify=verify_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%coord*]?( offsets = [%offsets*]) %result, %barrier, %pred$cache{} : !desc, !barrier -> !result",
        "desc coord* offsets* barrier result pred",
        types={"coord": i32, "offsets": _i16, "pred": i1},
        defaults=CACHE_DEFAULTS,
        custom={"cache": CACHE_OPTIONS},
    ),
)
declare(
    "ttng.async_tma_copy_local_to_global",
    buffers=Effect.READ,
    verify=verify_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%coord*] %src$cache{} : !desc, !src",
        "desc coord* src",
        types={"coord": i32},
        custom={"cache": CACHE_OPTIONS},
    ),
)
declare(
    "ttng.async_tma_reduce",
    buffers=Effect.READ,
    verify=verify_copy,
    effect=Effect.READ_WRITE,
    required=("kind",),
    **assembly(" @kind, %desc[%coord*] %src{} : !desc, !src", "desc coord* src", types={"coord": i32}),
)
declare(
    "ttng.async_tma_gather",
    buffers=Effect.WRITE,
    verify=verify_rows_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%x_offsets, %y_offset] %result, %barrier, %pred$cache{}"
        " : !desc, !x_offsets, !y_offset, !barrier, !result, !pred",
        "desc x_offsets y_offset barrier result pred",
        custom={"cache": CACHE_OPTIONS},
    ),
)
declare(
    "ttng.async_tma_scatter",
    buffers=Effect.READ,
    verify=verify_rows_copy,
    effect=Effect.READ_WRITE,
    **assembly(
        " %desc[%x_offsets, %y_offset] %src$cache{} : !desc, !x_offsets, !y_offset, !src",
        "desc x_offsets y_offset src",
        custom={"cache": CACHE_OPTIONS},
    ),
)
declare("ttng.async_tma_store_wait", effect=Effect.READ_WRITE, required=("pendings",), **assembly("{}"))
declare(
    "ttng.async_shared_store",
    buffers=Effect.WRITE,
    verify=verify_barriers,
    effect=Effect.READ_WRITE,
    **assembly(" %src, %dst, %mbarrier{} : !src -> !dst, !mbarrier", "src dst mbarrier"),
)

# Descriptors in memory

declare("ttng.reinterpret_tensor_descriptor", **assembly(" %rawDesc{} : !rawDesc to !result", "rawDesc", "result"))
declare(
    "ttng.tensormap_create",
    effect=Effect.READ_WRITE,
    required=("elem_type", "interleave_layout", "swizzle_mode", "fill_mode"),
    **assembly(
        " %desc_ptr, %global_address, [%box_dim*], [%global_dim*], [%global_stride*], [%element_stride*]{} : =>",
        "desc_ptr global_address box_dim* global_dim* global_stride* element_stride*",
    ),
)
declare(
    "ttng.tensormap_fenceproxy_acquire",
    synchronizes=True,  # one warp fences, and all wait for it
    effect=Effect.WRITE,
    **assembly(" %desc_ptr{} : !desc_ptr", "desc_ptr"),
)
