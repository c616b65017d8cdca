"""TTGIR in the interpreter: views of shared memory, copies that arrive late, barriers, readers that run on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.asynchrony import Products, RaceError
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify

assert tilewright.dialects.__all__

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#turned = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
#bar = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#nvmma = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
!slot = !ttg.memdesc<16x16xf16, #shared, #smem, mutable>
!ring = !ttg.memdesc<2x16x16xf16, #shared, #smem, mutable>
!barrier = !ttg.memdesc<1xi64, #bar, #smem, mutable>
!line = !ttg.memdesc<1x16xf16, #nvmma, #smem, mutable>
!square = !ttg.memdesc<16x16xf16, #nvmma, #smem, mutable>
!wide = !ttg.memdesc<64x16xf16, #nvmma, #smem, mutable>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%p: !tt.ptr<f16>, %out: !tt.ptr<f16>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %true = arith.constant true
  %row = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32, #columns>
  %rows = tt.expand_dims %row {axis = 0 : i32} : tensor<16xi32, #columns> -> tensor<1x16xi32, #blocked>
  %at = tt.broadcast %rows : tensor<1x16xi32, #blocked> -> tensor<16x16xi32, #blocked>
  %base = tt.splat %p : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>, #blocked>
  %ptrs = tt.addptr %base, %at : tensor<16x16x!tt.ptr<f16>, #blocked>, tensor<16x16xi32, #blocked>
  %to = tt.splat %out : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>, #blocked>
  %outs = tt.addptr %to, %at : tensor<16x16x!tt.ptr<f16>, #blocked>, tensor<16x16xi32, #blocked>
  %ring = ttg.local_alloc : () -> !ring
  %slot = ttg.memdesc_index %ring[%c1] : !ring -> !slot
"""
TAIL = """
  tt.store %outs, %x : tensor<16x16x!tt.ptr<f16>, #blocked>
  tt.return
}
}
"""
COPY = """
  %t = ttg.async_copy_global_to_local %ptrs, %slot
    : tensor<16x16x!tt.ptr<f16>, #blocked> -> <16x16xf16, #shared, #smem, mutable>
  %g = ttg.async_commit_group tokens %t
"""
READ = "%x = ttg.local_load %slot : !slot -> tensor<16x16xf16, #blocked>"


def run(body: str) -> tuple[Any, Any]:
    module = parse_module(HEAD + body + TAIL)
    verify(module)
    given, out = np.arange(16, dtype=np.float16), np.zeros(16, np.float16)
    run_ir(module, {"p": given, "out": out})
    return given, out


@pytest.mark.parametrize(("waiting", "arrived"), [("ttg.async_wait %g {num = 0 : i32}", True), ("", False)])
def test_a_copy_arrives_when_it_is_waited_for(waiting: str, arrived: bool) -> None:
    given, out = run(f"{COPY}\n{waiting}\n{READ}")
    assert (given == out).all() == arrived


def test_the_youngest_groups_may_be_on_their_way() -> None:
    second = COPY.replace("%t", "%t2").replace("%g", "%g2").replace("%ptrs", "%outs")
    given, out = run(f"{COPY}{second}%w = ttg.async_wait %g2 {{num = 1 : i32}}\n{READ}")
    assert (given == out).all(), "the zeros of the second copy have not arrived"


def test_views_are_views() -> None:
    turned = "!ttg.memdesc<16x16xf16, #turned, #smem, mutable>"
    part = "!ttg.memdesc<16x8xf16, #shared, #smem, mutable, 16x16>"
    half = "tensor<16x8xf16, #blocked>"
    given, out = run(
        f"""
        %v = tt.load %ptrs : tensor<16x16x!tt.ptr<f16>, #blocked>
        %tr = ttg.memdesc_trans %slot {{order = array<i32: 1, 0>}} : !slot -> {turned}
        ttg.local_store %v, %tr : tensor<16x16xf16, #blocked> -> {turned}
        %right = ttg.memdesc_subslice %slot[0, 8] : !slot -> {part}
        %h = ttg.local_load %right : {part} -> {half}
        ttg.local_store %h, %right : {half} -> {part}
        %y = ttg.local_load %tr : {turned} -> tensor<16x16xf16, #blocked>
        %x = ttg.convert_layout %y : tensor<16x16xf16, #blocked> -> tensor<16x16xf16, #blocked>
        """
    )
    assert (given == out).all()


BARRIER = """
  %d = tt.make_tensor_descriptor %p, [%c1, %c16], [%l16, %l1] : <f16>, <1x16xf16, #nvmma>
  %bar = ttg.local_alloc : () -> !barrier
  %buf = ttg.local_alloc : () -> !line
  ttng.init_barrier %bar, 1 : !barrier
  ttng.barrier_expect %bar, {bytes}, %true : !barrier
  ttng.async_tma_copy_global_to_local %d[%c0, %c0] %buf, %bar, %true
    : !tt.tensordesc<1x16xf16, #nvmma>, !barrier -> !line
  {wait}
  %one = ttg.local_load %buf : !line -> tensor<1x16xf16, #blocked>
  %x = tt.broadcast %one : tensor<1x16xf16, #blocked> -> tensor<16x16xf16, #blocked>
"""
NUMBERS = "%c16 = arith.constant 16 : i32\n%l16 = arith.constant 16 : i64\n%l1 = arith.constant 1 : i64\n"
WAIT = "ttng.wait_barrier %bar, %c0 : !barrier"


def test_a_barrier_counts_bytes() -> None:
    given, out = run(NUMBERS + BARRIER.format(bytes=32, wait=WAIT))
    assert (given == out).all()
    _, out = run(NUMBERS + BARRIER.format(bytes=32, wait=""))
    assert (given != out).any()
    with pytest.raises(RaceError, match="waits forever: 1 of 1 arrivals, 32 of 64 bytes"):
        run(NUMBERS + BARRIER.format(bytes=64, wait=WAIT))


MMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 16, 16]}>"
DOT = f"""
  %wide = ttg.local_alloc : () -> !wide
  %b = ttg.local_alloc : () -> !square
  %ones = arith.constant dense<1.0> : tensor<64x16xf16, #blocked>
  %b1 = arith.constant dense<1.0> : tensor<16x16xf16, #blocked>
  %acc = arith.constant dense<0.0> : tensor<64x16xf32, {MMA}>
  ttg.local_store %ones, %wide : tensor<64x16xf16, #blocked> -> !wide
  ttg.local_store %b1, %b : tensor<16x16xf16, #blocked> -> !square
  %d = ttng.warp_group_dot %wide, %b, %acc {{isAsync = true}} : !wide * !square -> tensor<64x16xf32, {MMA}>
"""
WAIT_DOT = f"%r = ttng.warp_group_dot_wait %d {{pendings = 0 : i32}} : tensor<64x16xf32, {MMA}>\n"
CHANGE = """
  %two = arith.constant dense<2.0> : tensor<16x16xf16, #blocked>
  ttg.local_store %two, %b : tensor<16x16xf16, #blocked> -> !square
"""
GIVEN = "%x = tt.load %ptrs : tensor<16x16x!tt.ptr<f16>, #blocked>"


def test_readers_may_run_on_when_more_are_allowed_than_there_are() -> None:
    products, buffers = Products(), [np.zeros(2) for _ in range(3)]
    for buffer in buffers:
        products.start(buffer)
    buffers[0][0] = 1
    products.wait(5)
    with pytest.raises(RaceError):
        products.wait(2)


def test_operands_stay_until_the_product_was_waited_for() -> None:
    run(DOT + WAIT_DOT + CHANGE + GIVEN)
    with pytest.raises(RaceError, match="shared memory was changed"):
        run(DOT + CHANGE + WAIT_DOT + GIVEN)
