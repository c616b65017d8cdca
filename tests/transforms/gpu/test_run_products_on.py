"""Products of warp groups that run on in the default partition, and when barriers tell that places are free."""

from __future__ import annotations

from collections.abc import Callable

from test_hoist_tensor_memory import text_of

from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.warp_specialization.run_products_on import run_products_on

LOOPS = """
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#tile = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#one = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
!sum = tensor<64x64xf32, #mma>
!tiles = !ttg.memdesc<3x64x64xf16, #tile, #smem, mutable>
!tile = !ttg.memdesc<64x64xf16, #tile, #smem, mutable>
!barriers = !ttg.memdesc<3x1xi64, #one, #smem, mutable>
!single = !ttg.memdesc<1x1xi64, #one, #smem, mutable>
!barrier = !ttg.memdesc<1xi64, #one, #smem, mutable>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @next_step(%ring: !tiles, %empty: !barriers, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : !sum
    scf.for %tile = %c0 to %n step %c1 : i32 {
      %s = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!sum) : i32 {
        %i = arith.remsi %k, %n : i32
        %x = ttg.memdesc_index %ring[%i] : !tiles -> !tile
        %d = ttng.warp_group_dot %x, %x, %sum : !tile * !tile -> !sum
        %e = ttg.memdesc_index %empty[%i] : !barriers -> !barrier
        ttng.arrive_barrier %e, 1 : !barrier
        scf.yield %d : !sum
      }
      "test.use"(%s) : (!sum) -> ()
    }
    tt.return
  }
  tt.func public @same_step(%ring: !tiles, %empty: !barriers, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : !sum
    %s = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!sum) : i32 {
      %x = ttg.memdesc_index %ring[%k] : !tiles -> !tile
      %d = ttng.warp_group_dot %x, %x, %sum : !tile * !tile -> !sum
      %e = ttg.memdesc_index %empty[%k] : !barriers -> !barrier
      ttng.arrive_barrier %e, 1 : !barrier
      %other = ttng.warp_group_dot %x, %x, %zero : !tile * !tile -> !sum
      "test.use"(%other) : (!sum) -> ()
      scf.yield %d : !sum
    }
    "test.use"(%s) : (!sum) -> ()
    tt.return
  }
  tt.func public @one_place(%x: !tile, %empty: !single, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : !sum
    %s = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!sum) : i32 {
      %d = ttng.warp_group_dot %x, %x, %sum : !tile * !tile -> !sum
      %e = ttg.memdesc_index %empty[%c0] : !single -> !barrier
      ttng.arrive_barrier %e, 1 : !barrier
      scf.yield %d : !sum
    }
    "test.use"(%s) : (!sum) -> ()
    tt.return
  }
}
"""


def test_places_are_free_when_products_have_ended(golden: Callable[[str, str], None]) -> None:
    module = Parser(text_of(LOOPS), unregistered=True).module()
    for function in module.body:
        run_products_on(function.regions[0].blocks[0])
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/products_run_on.ttgir")
