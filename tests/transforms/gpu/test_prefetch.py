"""Operands of a dot leave shared memory one step ahead; the product stays what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.prefetch import prefetch

assert tilewright.dialects.__all__

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#lhs = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#rhs = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [1, 0]}>
#smem = #ttg.shared_memory
!pointers = tensor<32x32x!tt.ptr<f16>, #blocked>
!tile = tensor<32x32xf16, #blocked>
!sum = tensor<32x32xf32, #mma>
!buffer = !ttg.memdesc<32x32xf16, #shared, #smem>
!slot = !ttg.memdesc<32x32xf16, #shared, #smem, mutable>
!ring = !ttg.memdesc<2x32x32xf16, #shared, #smem, mutable>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%x: !tt.ptr<f16>, %out: !tt.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %acc = arith.constant dense<0.0> : !sum
  %c = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32, #columns>
  %c1 = tt.expand_dims %c {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
  %r = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32, #rows>
  %r1 = tt.expand_dims %r {axis = 1 : i32} : tensor<32xi32, #rows> -> tensor<32x1xi32, #blocked>
  %wide = arith.constant dense<32> : tensor<32x1xi32, #blocked>
  %r2 = arith.muli %r1, %wide : tensor<32x1xi32, #blocked>
  %cb = tt.broadcast %c1 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %rb = tt.broadcast %r2 : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %o = arith.addi %rb, %cb : tensor<32x32xi32, #blocked>
  %s = tt.splat %x : !tt.ptr<f16> -> !pointers
  %p0 = tt.addptr %s, %o : !pointers, tensor<32x32xi32, #blocked>
  %next = arith.constant dense<1024> : tensor<32x32xi32, #blocked>
"""
TAIL = """
  %so = tt.splat %out : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>, #blocked>
  %po = tt.addptr %so, %o : tensor<32x32x!tt.ptr<f32>, #blocked>, tensor<32x32xi32, #blocked>
  %res = ttg.convert_layout %sum#0 : !sum -> tensor<32x32xf32, #blocked>
  tt.store %po, %res : tensor<32x32x!tt.ptr<f32>, #blocked>
  tt.return
}
}
"""
PRODUCT = "tensor<32x32xf16, #lhs> * tensor<32x32xf16, #rhs> -> !sum"

CARRIED = f"""{HEAD}
  %v0 = tt.load %p0 : !pointers
  %b0 = ttg.local_alloc %v0 : (!tile) -> !buffer
  %sum:3 = scf.for %i = %zero to %n step %one iter_args(%d = %acc, %b = %b0, %p = %p0)
      -> (!sum, !buffer, !pointers) : i32 {{
    %lhs = ttg.local_load %b : !buffer -> tensor<32x32xf16, #lhs>
    %rhs = ttg.local_load %b : !buffer -> tensor<32x32xf16, #rhs>
    %t = tt.dot %lhs, %rhs, %d : {PRODUCT}
    %q = tt.addptr %p, %next : !pointers, tensor<32x32xi32, #blocked>
    %v = tt.load %q : !pointers
    %nb = ttg.local_alloc %v : (!tile) -> !buffer
    scf.yield %t, %nb, %q : !sum, !buffer, !pointers
  }}
{TAIL}"""

RING = f"""{HEAD}
  %ring = ttg.local_alloc : () -> !ring
  %s0 = ttg.memdesc_index %ring[%zero] : !ring -> !slot
  %t0 = ttg.async_copy_global_to_local %p0, %s0 : !pointers -> <32x32xf16, #shared, #smem, mutable>
  %g0 = ttg.async_commit_group tokens %t0
  %sum:4 = scf.for %i = %zero to %n step %one iter_args(%d = %acc, %at = %zero, %p = %p0, %g = %g0)
      -> (!sum, i32, !pointers, !ttg.async.token) : i32 {{
    %w = ttg.async_wait %g {{num = 0 : i32}}
    %slot = ttg.memdesc_index %ring[%at] : !ring -> !slot
    %lhs = ttg.local_load %slot token %w : !slot -> tensor<32x32xf16, #lhs>
    %rhs = ttg.local_load %slot token %w : !slot -> tensor<32x32xf16, #rhs>
    %t = tt.dot %lhs, %rhs, %d : {PRODUCT}
    %q = tt.addptr %p, %next : !pointers, tensor<32x32xi32, #blocked>
    %other = arith.subi %one, %at : i32
    %free = ttg.memdesc_index %ring[%other] : !ring -> !slot
    %c2 = ttg.async_copy_global_to_local %q, %free : !pointers -> <32x32xf16, #shared, #smem, mutable>
    %g2 = ttg.async_commit_group tokens %c2
    scf.yield %t, %other, %q, %g2 : !sum, i32, !pointers, !ttg.async.token
  }}
{TAIL}"""


FILLED = f"""{HEAD}
  %v0 = tt.load %p0 : !pointers
  %b0 = ttg.local_alloc : () -> !slot
  %sum:3 = scf.for %i = %zero to %n step %one iter_args(%d = %acc, %b = %b0, %p = %p0)
      -> (!sum, !slot, !pointers) : i32 {{
    %v = tt.load %p : !pointers
    ttg.local_store %v, %b : !tile -> !slot
    %lhs = ttg.local_load %b : !slot -> tensor<32x32xf16, #lhs>
    %rhs = ttg.local_load %b : !slot -> tensor<32x32xf16, #rhs>
    %t = tt.dot %lhs, %rhs, %d : {PRODUCT}
    %q = tt.addptr %p, %next : !pointers, tensor<32x32xi32, #blocked>
    scf.yield %t, %b, %q : !sum, !slot, !pointers
  }}
{TAIL}"""


def run(module: Op, steps: int) -> Any:
    x = np.random.default_rng(0).standard_normal((5, 32, 32)).astype(np.float16)
    out = np.zeros((32, 32), np.float32)
    run_ir(module, {"x": x, "out": out, "n": steps})
    return out


@pytest.mark.parametrize("text", [CARRIED, RING], ids=["carried", "ring"])
@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_the_product_stays_what_it_was(text: str, steps: int) -> None:
    module = parse_module(text)
    verify(module)
    expected = run(module, steps)
    assert prefetch(module)
    verify(module)
    np.testing.assert_allclose(run(module, steps), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("name", "text"), [("carried", CARRIED), ("ring", RING)])
def test_text(name: str, text: str, golden: Callable[[str, str], None]) -> None:
    module = parse_module(text)
    prefetch(module)
    golden(print_op(module), f"transforms/prefetch/{name}.ttgir")


def test_other_loops_stay() -> None:
    constant = "  %fixed = arith.constant dense<1.0> : tensor<32x32xf16, #rhs>\n  %v0 = tt.load"
    unloaded = CARRIED.replace("%rhs, %d", "%fixed, %d").replace("  %v0 = tt.load", constant)
    assert not prefetch(parse_module(unloaded)), "an operand that is not loaded"
    first = f"    %t1 = tt.dot %lhs, %rhs, %d : {PRODUCT}\n    %t = tt.dot"
    assert not prefetch(parse_module(CARRIED.replace("    %t = tt.dot", first))), "two dots"
    assert not prefetch(parse_module(FILLED)), "a buffer that each step fills before it loads from it"
