"""Loops that are divided among groups of warps: each pass as text, and loops that are left as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions
from tilewright.transforms.gpu.tensor_memory_sums import remove_tensor_memory_tokens
from tilewright.transforms.gpu.warp_specialization.automatic import automatic_warp_specialization
from tilewright.transforms.gpu.warp_specialization.insert_channels import insert_channels
from tilewright.transforms.gpu.warp_specialization.partition_loops import partition_loops
from tilewright.transforms.gpu.warp_specialization.partition_scheduling import partition_scheduling

SUMS = """
#loaded = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#sums = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#turned = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @sums(%a: !tt.tensordesc<tensor<128x64xf16, #shared>>, %b: !tt.tensordesc<tensor<64x64xf16, #shared>>,
      %c: !tt.tensordesc<tensor<128x64xf32, #wide>>, %p: !tt.ptr<i32>, %tiles: i32, %n: i32) {
    %true = arith.constant true
    %false = arith.constant false
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c64 = arith.constant 64 : i32
    %c128 = arith.constant 128 : i32
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #sums>
    scf.for %tile = %c0 to %tiles step %c1 : i32 {
      %row = arith.muli %tile, %c128 : i32
      %m, %t = ttng.tmem_alloc %zero : (tensor<128x64xf32, #sums>) -> (!ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>, !ttg.async.token)
      %s:2 = scf.for %k = %c0 to %n step %c1 iter_args(%add = %false, %u = %t) -> (i1, !ttg.async.token) : i32 {
        %column = arith.muli %k, %c64 : i32
        %x = tt.descriptor_load %a[%row, %column] : !tt.tensordesc<tensor<128x64xf16, #shared>> -> tensor<128x64xf16, #loaded>
        %left = ttg.local_alloc %x : (tensor<128x64xf16, #loaded>) -> !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>
        %y = tt.descriptor_load %b[%c0, %column] : !tt.tensordesc<tensor<64x64xf16, #shared>> -> tensor<64x64xf16, #loaded>
        %rows = ttg.local_alloc %y : (tensor<64x64xf16, #loaded>) -> !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory>
        %right = ttg.memdesc_trans %rows {order = array<i32: 1, 0>} : !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory> -> !ttg.memdesc<64x64xf16, #turned, #ttg.shared_memory>
        %v = ttng.tc_gen5_mma %left, %right, %m[%u], %add, %true : !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>, !ttg.memdesc<64x64xf16, #turned, #ttg.shared_memory>, !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
        scf.yield %true, %v : i1, !ttg.async.token
      }
      %sum, %w = ttng.tmem_load %m[%s#1] : !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable> -> tensor<128x64xf32, #sums>
      tt.descriptor_store %c[%row, %c0], %sum : !tt.tensordesc<tensor<128x64xf32, #wide>>, tensor<128x64xf32, #sums>
    } {tt.warp_specialize}
    tt.return
  }
}
"""


def module_of(*changes: tuple[str, str]) -> Op:
    text = SUMS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_module(text)


def test_each_op_gets_a_partition(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    assert partition_scheduling(module)
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/scheduled.ttgir")


def test_partitions_hand_over_buffers(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    partition_scheduling(module)
    remove_tensor_memory_tokens(module)
    assert insert_channels(module, StageOptions(2))
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/with_channels.ttgir")


def test_each_partition_gets_a_loop(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    assert automatic_warp_specialization(module, StageOptions(2))
    verify(module)
    canonicalize(module)
    golden(print_op(module), "transforms/warp_specialization/specialized.ttgir")


def test_loops_keep_their_own_number_of_stages() -> None:
    module = module_of(("{tt.warp_specialize}", "{tt.num_stages = 4 : i32, tt.warp_specialize}"))
    automatic_warp_specialization(module, StageOptions(2))
    assert "!ttg.memdesc<4x128x64xf16" in print_op(module)


def test_a_module_without_marks_is_left_alone() -> None:
    module = module_of()
    assert not insert_channels(module)
    assert not partition_loops(module)
    assert print_op(module) == print_op(module_of())


LOADED_ROW = ("%row = arith.muli %tile, %c128 : i32", "%row = tt.load %p : !tt.ptr<i32>")
USED = '"use"(%left) : (!ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>) -> ()'
FLAG = [("%p: !tt.ptr<i32>", "%p: !tt.ptr<i32>, %q: !tt.ptr<i1>"), ("%add, %true", "%add, %flag")]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("{tt.warp_specialize}", "")], id="nobody asked"),
        pytest.param([('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2')], id="two CTAs"),
        pytest.param([LOADED_ROW], id="a copy needs what the default partition loads"),
        pytest.param([("        %v = ttng", f"        {USED}\n        %v = ttng")], id="an unknown op has a buffer"),
        pytest.param(
            [("        %v = ttng", "        %flag = tt.load %q : !tt.ptr<i1>\n        %v = ttng"), *FLAG],
            id="a product needs what the default partition loads",
        ),
    ],
)
def test_left_as_it_is(changes: list[tuple[str, str]]) -> None:
    module = module_of(*changes)
    before = print_op(module)
    assert not automatic_warp_specialization(module)
    assert print_op(module) == before
