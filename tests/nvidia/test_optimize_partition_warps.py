"""Partitions get the warps and registers that they need."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import run_module

from tilewright.dialects.ttg_warp_specialize import WarpSpecialize
from tilewright.dialects.ttng_descriptors import AsyncTmaGather
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.layouts.conversion import to_linear_layout
from tilewright.transforms.gpu.allocate_memory import allocate_shared_memory
from tilewright.transforms.gpu.membar import membar
from tilewright.transforms.gpu.tile_ops import layout_of
from tilewright.transforms.gpu.warp_specialization.optimize_partition_warps import optimize_partition_warps

TILES = """
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [8], order = [0]}>
#tile = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 2], order = [1, 0]}>
#odd = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64], [0]], block = []}>
#barrier = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
!barrier = !ttg.memdesc<1xi64, #barrier, #ttg.shared_memory, mutable>
#row = #ttg.slice<{dim = 0, parent = #tile}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 8 : i32, ttg.target = "cuda:100"} {
  tt.func public @tiles(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
    %b = ttg.local_alloc : () -> !barrier
    ttg.warp_specialize(%x, %y, %b)
    default {
      ttg.warp_yield
    }
    partition0(%p: !tt.ptr<i32>, %q: !tt.ptr<i32>, %m: !barrier) num_warps(8) {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %c = arith.constant dense<7> : tensor<64xi32, #row>
      %n = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #row>
      %ps = tt.splat %p : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #row>
      %from = tt.addptr %ps, %n : tensor<64x!tt.ptr<i32>, #row>, tensor<64xi32, #row>
      %v = tt.load %from : tensor<64x!tt.ptr<i32>, #row>
      %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %c) -> (tensor<64xi32, #row>) : i32 {
        %t = arith.addi %s, %v : tensor<64xi32, #row>
        scf.yield %t : tensor<64xi32, #row>
      }
      %r = tt.expand_dims %sum {axis = 0 : i32} : tensor<64xi32, #row> -> tensor<1x64xi32, #tile>
      %w = tt.broadcast %r : tensor<1x64xi32, #tile> -> tensor<32x64xi32, #tile>
      %z = "tt.reduce"(%w) <{axis = 0 : i32}> ({
      ^bb0(%a: i32, %d: i32):
        %e = arith.addi %a, %d : i32
        tt.reduce.return %e : i32
      }) : (tensor<32x64xi32, #tile>) -> tensor<64xi32, #row>
      %qs = tt.splat %q : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #row>
      %to = tt.addptr %qs, %n : tensor<64x!tt.ptr<i32>, #row>, tensor<64xi32, #row>
      tt.store %to, %z : tensor<64x!tt.ptr<i32>, #row>
      ttg.warp_return
    } : (!tt.ptr<i32>, !tt.ptr<i32>, !barrier) -> ()
    tt.return
  }
}
"""


def module_of(text: str) -> Op:
    module = parse_module(text)
    verify(module)
    return module


def found(module: Op) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The warps and the registers of all partitions."""
    assert optimize_partition_warps(module)
    verify(module)
    (op,) = (op for op in module.walk() if isinstance(op, WarpSpecialize))
    return tuple(op.partition_warps), tuple(op.registers)


def with_op(text: str) -> Op:
    """The module with a further op in the partition."""
    place = "      ttg.warp_return"
    return module_of(TILES.replace(place, f"      {text}\n{place}"))


def test_one_warp_computes_what_eight_did() -> None:
    """A thread of one warp has 64 elements of the largest tile."""
    x = np.arange(64, dtype=np.int32) - 20
    expected = 32 * (7 + 4 * x)
    for shrinks in (False, True):
        module, out = module_of(TILES), np.zeros(64, np.int32)
        if shrinks:
            assert found(module) == ((1,), (88,))
            assert "warpsPerCTA = [1, 1]" in print_op(module)
        allocate_shared_memory(module)
        membar(module)
        run_module(module, [x, out], capability=100)
        np.testing.assert_array_equal(out, expected)


def test_no_tile_may_take_more_than_64_registers() -> None:
    module = module_of(TILES.replace("32x64", "64x64"))
    assert found(module) == ((2,), (88,))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "warps"),
    [
        ("ttng.async_copy_mbarrier_arrive %m : !barrier", 8),
        ("%k = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32, #odd>", 8),
        ("ttng.arrive_barrier %m, 1 : !barrier", 1),
        ("%k = arith.muli %c4, %c4 {tt.divisibility = dense<16> : tensor<1xi32>} : i32", 1),
    ],
    ids=["a barrier counts the threads", "a layout that is not blocked", "one thread tells a barrier", "a hint"],
)
def test_what_keeps_all_warps(text: str, warps: int) -> None:
    assert found(with_op(text))[0] == (warps,)


MEMORY = "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>"
ROWS = "#ttg.slice<{dim = 0, parent = #rows}>"
GATHERED = (
    ("#row =", f"#memory = {MEMORY}\n#row ="),
    ("#row =", "#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], warpsPerCTA = [1, 8], "
     "order = [1, 0]}>\n#row ="),
    ("%y: !tt.ptr<i32>)", "%y: !tt.ptr<i32>, %f: !source, %u: !target)"),
    ("(%x, %y, %b)", "(%x, %y, %b, %f, %u)"),
    ("%m: !barrier)", "%m: !barrier, %f: !source, %u: !target)"),
    (", !barrier) -> ()", ", !barrier, !source, !target) -> ()"),
    ("      ttg.warp_return", f"""
      %true = arith.constant true
      %k = tt.make_range {{start = 0 : i32, end = 128 : i32}} : tensor<128xi32, {ROWS}>
      ttng.async_tma_gather %f[%k, %c0] %u, %m, %true : !source, tensor<128xi32, {ROWS}>, i32, !barrier, !target, i1
      ttg.warp_return"""),
    ("!source", "!tt.tensordesc<1x64xf16, #memory>"),
    ("!target", "!ttg.memdesc<128x64xf16, #memory, #ttg.shared_memory, mutable>"),
)  # fmt: skip


def test_two_warps_gather_rows() -> None:
    """Each thread of a warp still knows four neighbours, as the copy needs it."""
    text = TILES
    for old, new in GATHERED:
        assert old in text
        text = text.replace(old, new)
    module = module_of(text)
    assert found(module)[0] == (2,)
    (gather,) = module.ops_of(AsyncTmaGather)
    columns = to_linear_layout(layout_of(gather.rows), (128,)).columns
    assert columns["register"][:2] == (1, 2)
    assert not any(columns["lane"])


def test_a_module_without_partitions_is_left_alone() -> None:
    module = module_of("module { tt.func public @f() { tt.return } }")
    assert not optimize_partition_warps(module)
