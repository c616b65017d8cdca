"""Tokens of tensor memory leave the accesses, and loops stop carrying them."""

from __future__ import annotations

import re

from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.tensor_memory_accumulators import remove_tensor_memory_tokens

MEMORY = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
FACTORS = [f"!ttg.memdesc<{shape}xf16, #shared, #ttg.shared_memory>" for shape in ("128x64", "64x64")]
TILE = "tensor<128x64xf32, #linear>"
MODULE = f"""
#shared = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
#linear = #ttg.linear<{{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]],
  lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"}} {{
  tt.func public @sum(%a: {FACTORS[0]}, %b: {FACTORS[1]}, %zeros: {TILE}, %p: tensor<128x64x!tt.ptr<f32>, #linear>) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c9 = arith.constant 9 : i32
    %true = arith.constant true
    %m, %t = ttng.tmem_alloc : () -> ({MEMORY}, !ttg.async.token)
    %s = ttng.tmem_store %zeros, %m[%t], %true : {TILE} -> {MEMORY}
    %last = scf.for %i = %c0 to %c9 step %c1 iter_args(%before = %s) -> (!ttg.async.token)  : i32 {{
      %next = ttng.tc_gen5_mma %a, %b, %m[%before], %true, %true : {FACTORS[0]}, {FACTORS[1]}, {MEMORY}
      scf.yield %next : !ttg.async.token
    }}
    %x, %u = ttng.tmem_load %m[%last] : {MEMORY} -> {TILE}
    tt.store %p, %x : tensor<128x64x!tt.ptr<f32>, #linear>
    tt.return
  }}
}}
"""


def test_tokens_leave() -> None:
    module = parse_module(MODULE)
    assert remove_tensor_memory_tokens(module)
    verify(module)
    canonicalize(module)
    text = print_op(module)
    assert not re.search(r"token|poison|iter_args|\[", text[text.index("%c0") :])
    order = re.findall(r"(?:%\w+ = )?(?:ttng\.(?:tmem|tc)_\w+|scf\.for)", text[text.index("tt.func") :])
    assert order == ["%m = ttng.tmem_alloc", "ttng.tmem_store", "scf.for", "ttng.tc_gen5_mma", "%x = ttng.tmem_load"]


def test_once_is_enough() -> None:
    module = parse_module(MODULE)
    remove_tensor_memory_tokens(module)
    text = print_op(module)
    assert not remove_tensor_memory_tokens(module)
    assert print_op(module) == text
