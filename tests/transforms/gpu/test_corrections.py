"""A partition of its own corrects sums in tensor memory: each pass as text, and loops that have no such partition."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from test_hoist_tensor_memory import text_of

from tilewright.dialects.scf import For
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions
from tilewright.transforms.gpu.tensor_memory_accumulators import remove_tensor_memory_tokens
from tilewright.transforms.gpu.warp_specialization.automatic import automatic_warp_specialization
from tilewright.transforms.gpu.warp_specialization.correction import can_be_read
from tilewright.transforms.gpu.warp_specialization.insert_channels import insert_channels
from tilewright.transforms.gpu.warp_specialization.partition_loops import partition_loops
from tilewright.transforms.gpu.warp_specialization.partition_scheduling import partition_scheduling
from tilewright.transforms.gpu.warp_specialization.run_products_ahead import run_products_ahead

ATTENTION = """
#loaded = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#sums = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#turned = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
!sum = !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
!left = !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>
!rows = !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory>
!right = !ttg.memdesc<64x64xf16, #turned, #ttg.shared_memory>
!adesc = !tt.tensordesc<tensor<128x64xf16, #shared>>
!bdesc = !tt.tensordesc<tensor<64x64xf16, #shared>>
!xtile = tensor<128x64xf16, #loaded>
!ytile = tensor<64x64xf16, #loaded>
!tile = tensor<128x64xf32, #sums>
!half = tensor<128x64xf16, #sums>
!copy = !ttg.memdesc<128x64xf32, #wide, #ttg.shared_memory>
!column = tensor<128xf32, #ttg.slice<{dim = 1, parent = #sums}>>
!thin = tensor<128x1xf32, #sums>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @attention(%q: !adesc, %k: !bdesc, %v: !bdesc, %p: !tt.ptr<f32>, %n: i32) -> (!tile, !column) {
    %true = arith.constant true
    %false = arith.constant false
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : !tile
    %least = arith.constant dense<0xFF800000> : !column
    %x = tt.descriptor_load %q[%c0, %c0] : !adesc -> !xtile
    %query = ttg.local_alloc %x : (!xtile) -> !left
    %m, %t = ttng.tmem_alloc %zero : (!tile) -> (!sum, !ttg.async.token)
    %r:2 = scf.for %i = %c0 to %n step %c64 iter_args(%old = %least, %u = %t) -> (!column, !ttg.async.token) : i32 {
      %y = tt.descriptor_load %k[%i, %c0] : !bdesc -> !ytile
      %rows = ttg.local_alloc %y : (!ytile) -> !rows
      %keys = ttg.memdesc_trans %rows {order = array<i32: 1, 0>} : !rows -> !right
      %s, %s0 = ttng.tmem_alloc : () -> (!sum, !ttg.async.token)
      %s1 = ttng.tc_gen5_mma %query, %keys, %s[%s0], %false, %true : !left, !right, !sum
      %scores, %s2 = ttng.tmem_load %s[%s1] : !sum -> !tile
      %new = "tt.reduce"(%scores) <{axis = 1 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %c = arith.maxnumf %a, %b : f32
        tt.reduce.return %c : f32
      }) : (!tile) -> !column
      %shares = math.exp2 %scores : !tile
      %half = arith.truncf %shares : !tile to !half
      %less = arith.subf %old, %new : !column
      %factor = math.exp2 %less : !column
      %weights = ttg.local_alloc %half : (!half) -> !left
      %z = tt.descriptor_load %v[%i, %c0] : !bdesc -> !ytile
      %values = ttg.local_alloc %z : (!ytile) -> !rows
      %thin = tt.expand_dims %factor {axis = 1 : i32} : !column -> !thin
      %wide = tt.broadcast %thin : !thin -> !tile
      %before, %u1 = ttng.tmem_load %m[%u] : !sum -> !tile
      %smaller = arith.mulf %before, %wide : !tile
      %u2 = ttng.tmem_store %smaller, %m[%u1], %true : !tile -> !sum
      %u3 = ttng.tc_gen5_mma %weights, %values, %m[%u2], %true, %true : !left, !rows, !sum
      scf.yield %new, %u3 : !column, !ttg.async.token
    } {tt.warp_specialize}
    %sums, %w = ttng.tmem_load %m[%r#1] : !sum -> !tile
    tt.return %sums, %r#0 : !tile, !column
  }
}
"""
MARK = r"ttg\.partition = array<i32: ([\d, ]+)>"


def module_of(*changes: tuple[str, str]) -> Op:
    return parse_module(text_of(ATTENTION, *changes))


def test_each_op_gets_a_partition(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    assert partition_scheduling(module)
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/attention_scheduled.ttgir")


def test_the_factor_goes_through_shared_memory(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    assert insert_channels(module, StageOptions(2))
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/attention_with_channels.ttgir")


def test_each_partition_gets_a_loop(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    assert automatic_warp_specialization(module, StageOptions(2))
    verify(module)
    canonicalize(module)
    golden(print_op(module), "transforms/warp_specialization/attention_specialized.ttgir")


def scheduled(module: Op, stages: int) -> list[tuple[str, str]]:
    """The ops of the loop of products, each with its stage in the order in which they run."""
    partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    insert_channels(module, StageOptions(stages))
    partition_loops(module)
    run_products_ahead(module)
    verify(module)
    slot = r"loop\.cluster = (\d) : i32, loop\.stage = (\d)"
    found = re.findall(rf"ttng\.(wait_barrier|tc_gen5_\w+).*{slot}", print_op(module))
    assert all(cluster == stage for _, cluster, stage in found)
    return [(name, stage) for name, _, stage in found]


def test_scores_of_the_next_step_come_before_the_sums_of_this_one() -> None:
    started = [("wait_barrier", "0")] * 2 + [("tc_gen5_mma", "0")] + [("tc_gen5_commit", "0")] * 2
    finished = [("wait_barrier", "1")] * 3 + [("tc_gen5_mma", "1")] + [("tc_gen5_commit", "1")] * 3
    assert scheduled(module_of(), 2) == started + finished


VALUES = "%z = tt.descriptor_load %v[%i, %c0] : !bdesc -> !ytile\n      "
KEYS = "%y = tt.descriptor_load"


def test_one_place_for_the_values_that_are_copied_first_keeps_the_order() -> None:
    changes = [(VALUES, ""), (KEYS, VALUES + KEYS)]
    assert scheduled(module_of(*changes), 2)
    assert not scheduled(module_of(*changes), 1)


def test_products_that_wait_for_each_other_alone_keep_their_order() -> None:
    assert scheduled(module_of(("%weights, %values", "%query, %values")), 2) == []


STORED = "      %u2 = ttng"
FACTOR = "tt.expand_dims %factor"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(FACTOR, "tt.expand_dims %old")], id="a factor of the step before"),
        pytest.param([(STORED, f"      %copy = ttg.local_alloc %smaller : (!tile) -> !copy\n{STORED}")], id="a copy"),
        pytest.param([("%m[%u1], %true", "%m[%u1], %false")], id="a sum that stays"),
        pytest.param([('"ttg.num-warps" = 4', '"ttg.num-warps" = 16')], id="no warps for it"),
        pytest.param([('"ttg.num-warps" = 4', '"ttg.maxnreg" = 184 : i32, "ttg.num-warps" = 4')], id="no registers"),
    ],
)
def test_the_default_partition_corrects(changes: list[tuple[str, str]]) -> None:
    changes = [*changes, *([("warpsPerCTA = [4, 1]", "warpsPerCTA = [4, 4]")] if "16" in changes[0][1] else [])]
    module = module_of(*changes)
    assert partition_scheduling(module)
    assert "3" not in "".join(re.findall(MARK, print_op(module)))


def test_sums_that_need_more_registers_than_a_thread_has() -> None:
    module = module_of()
    (loop,) = module.ops_of(For)
    assert can_be_read(loop, 88)
    assert not can_be_read(loop, 80)  # 64 of the sums and 24 others
