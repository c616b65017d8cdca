"""Tensor memory of sm_100: `ttng.tmem_alloc`, `ttng.tmem_load`, `ttng.tmem_store`, …

%m, %t = ttng.tmem_alloc : () -> (!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.async.token)
%x, %u = ttng.tmem_load %m[%t] : … -> tensor<128x64xf32, #linear>
"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly
from tilewright.dialects.ttg_memory import allocation_effect
from tilewright.dialects.ttng_products import token_piece
from tilewright.dialects.ttng_rules import (
    verify_tensor_alloc,
    verify_tensor_copy,
    verify_tensor_load,
    verify_tensor_store,
    verify_tensor_subslice,
)
from tilewright.ir.attributes import Number
from tilewright.ir.declare import Effect, declare
from tilewright.ir.types import i1, i32

_TOKEN = {"token": token_piece("dep", "token")}

declare(
    "ttng.tmem_alloc",
    verify=verify_tensor_alloc,
    effect=Effect.ALLOCATE,
    effect_of=allocation_effect,
    **assembly("?( %src){} : =>", "src?", "result token?"),
)
declare(
    "ttng.tmem_load",
    verify=verify_tensor_load,
    effect=Effect.READ,
    **assembly(" %src$token{} : !src -> !result?(, !red)", "src dep?", "result token? red?", custom=_TOKEN),
)
declare(
    "ttng.tmem_store",
    verify=verify_tensor_store,
    effect=Effect.WRITE,
    **assembly(
        " %src, %dst$token, %pred{} : !src -> !dst",
        "dst dep? src pred",
        "token?",
        types={"pred": i1},
        custom=_TOKEN,
    ),
)
declare(
    "ttng.tmem_subslice",
    verify=verify_tensor_subslice,
    **assembly(" %src{} : !src -> !result", "src", "result", defaults={"dim": Number(1, i32)}),
)
declare(
    "ttng.tmem_copy",
    buffers=Effect.READ,
    verify=verify_tensor_copy,
    effect=Effect.READ_WRITE,
    **assembly(" %src, %dst?(, %barrier){} : !src, !dst?(, !barrier)", "src dst barrier?"),
)
declare("ttng.tmem_wait", effect=Effect.READ_WRITE, required=("kind",), **assembly(" @kind{}"))
