"""Tiles in shared memory: `ttg.local_alloc`, `ttg.local_load`, `ttg.memdesc_index`, …

%b = ttg.local_alloc %t : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
%v = ttg.memdesc_trans %b {order = array<i32: 1, 0>} : … -> !ttg.memdesc<64x64xf16, #shared1, #smem>
%x = ttg.local_load %v : … -> tensor<64x64xf16, #ttg.dot_op<{…}>>
"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly, mask_like
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declare
from tilewright.ir.types import MemDescType, async_token, i32


def allocation_effect(op: Op) -> Effect:
    """An allocation that is written once, where it is made, is as good as a value."""
    type = op.results[0].type
    return Effect.ALLOCATE if isinstance(type, MemDescType) and type.mutable else Effect.NONE


declare(
    "ttg.local_alloc",
    effect=Effect.ALLOCATE,
    effect_of=allocation_effect,
    **assembly("?( %src){} : =>", "src?", "result"),
)
declare("ttg.local_dealloc", effect=Effect.WRITE, **assembly(" %src{} : !src", "src"))
declare(
    "ttg.local_load",
    effect=Effect.READ,
    **assembly(" %src?( token %token){} : !src -> !result", "src token?", "result", types={"token": async_token}),
)
declare("ttg.local_store", effect=Effect.WRITE, **assembly(" %src, %dst{} : !src -> !dst", "src dst"))
declare(
    "ttg.local_gather",
    effect=Effect.READ,
    required=("axis",),
    **assembly(
        " %src[%indices]?( token %token){} : !src, !indices -> !result",
        "src indices token?",
        "result",
        types={"token": async_token},
    ),
)
declare(
    "ttg.local_scatter",
    effect=Effect.WRITE,
    required=("axis",),
    **assembly(
        " %dst[%indices], %values?( token %token){} : !dst, !indices, !values",
        "dst values indices token?",
        types={"token": async_token},
    ),
)
declare(
    "ttg.local_atomic_scatter_rmw",
    effect=Effect.READ_WRITE,
    required=("atomic_rmw_op", "axis"),
    **assembly(
        " @atomic_rmw_op, %dst[%indices], %values?(, %mask){} : =>",
        "dst values indices mask?",
        "result",
        types={"mask": mask_like("values")},
    ),
)

# Views

declare(
    "ttg.memdesc_index",
    **assembly(" %src[%index]{} : !src -> !result", "src index", "result", types={"index": i32}),
)
declare(
    "ttg.memdesc_subslice", required=("offsets",), **assembly(" %src[#offsets*]{} : !src -> !result", "src", "result")
)
declare("ttg.memdesc_trans", required=("order",), **assembly(" %src{} : !src -> !result", "src", "result"))
declare("ttg.memdesc_reshape", **assembly(" %src{} : !src -> !result", "src", "result"))
declare("ttg.memdesc_reinterpret", **assembly(" %src{} : !src -> !result", "src", "result"))
