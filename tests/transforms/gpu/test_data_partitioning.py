"""Two groups of warps that share the rows of products, and modules that keep one group."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_hoist_tensor_memory import text_of

from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.warp_specialization import data_partitioning as module_with_pass
from tilewright.transforms.gpu.warp_specialization.data_partitioning import data_partitioning

PRODUCT = """
#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
!left = tensor<128x64xf16, #left>
!right = !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory, mutable>
!sum = tensor<128x64xf32, #mma>
!row = tensor<128xf32, #ttg.slice<{dim = 1, parent = #mma}>>
!stored = tensor<128x64xf32, #rows>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @product(%b: !right, %n: i32) {
    %a = "test.load"() : () -> (!left)
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.0> : !sum
    %s = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %zero) -> (!sum) : i32 {
      %d = ttng.warp_group_dot %a, %b, %sum : !left * !right -> !sum
      scf.yield %d : !sum
    }
    %most = "tt.reduce"(%s) <{axis = 1 : i32}> ({
    ^bb0(%x: f32, %y: f32):
      %larger = arith.maxnumf %x, %y : f32
      tt.reduce.return %larger : f32
    }) : (!sum) -> !row
    %out = ttg.convert_layout %s : !sum -> !stored
    "test.use"(%most, %out) : (!row, !stored) -> ()
    tt.return
  }
}
"""
LINEAR = (
    "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], "
    "lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>"
)
TURNED = "#ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>"
OUT, TYPE = "%out = ttg.convert_layout %s : !sum -> !stored", "!stored = tensor<128x64xf32, #rows>"


def module_of(*changes: tuple[str, str]) -> Op:
    module = Parser(text_of(PRODUCT, *changes), unregistered=True).module()
    verify(module)
    return module


def test_eight_warps_have_all_tiles(golden: Callable[[str, str], None]) -> None:
    module = module_of()
    assert data_partitioning(module)
    verify(module)
    golden(print_op(module), "transforms/warp_specialization/two_groups.ttgir")


def test_a_turned_tile_has_its_warps_along_the_other_dimension() -> None:
    turn = "%turned = tt.trans %out {order = array<i32: 1, 0>} : !stored -> !turned"
    module = module_of((TYPE, f"!turned = tensor<64x128xf32, {TURNED}>\n{TYPE}"), (OUT, f"{OUT}\n{turn}"))
    assert data_partitioning(module)
    verify(module)
    assert "warpsPerCTA = [1, 8], order = [0, 1]" in print_op(module)


@pytest.mark.quick
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([("128x64", "64x64"), ("128xf32", "64xf32")], id="rows for one group"),
        pytest.param([('"ttg.num-ctas" = 1', '"ttg.maxnreg" = 200 : i32, "ttg.num-ctas" = 1')], id="registers"),
        pytest.param([(TYPE, f"!stored = tensor<128x64xf32, {LINEAR}>")], id="a layout of another kind"),
        pytest.param([("%c0 =", "tt.call @product(%b, %n) : (!right, i32) -> ()\n    %c0 =")], id="a call"),
    ],
)
def test_left_as_it_is(changes: list[tuple[str, str]]) -> None:
    module = module_of(*changes)
    before = print_op(module)
    assert not data_partitioning(module)
    assert print_op(module) == before


def test_a_module_that_would_not_be_valid_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(module: Op) -> None:
        raise VerificationError(module, "an op needs another layout")

    monkeypatch.setattr(module_with_pass, "verify", refuse)
    module = module_of()
    before = print_op(module)
    assert not data_partitioning(module)
    assert print_op(module) == before
