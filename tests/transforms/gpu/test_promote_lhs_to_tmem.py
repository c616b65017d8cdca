"""Left factors in tensor memory: those that are computed, and which ones stay in shared memory."""

from __future__ import annotations

import re

import pytest
from test_hoist_tensor_memory import text_of

from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.promote_lhs_to_tmem import promote_lhs_to_tmem

LOOP = """
#rows = #ttg.blocked<{sizePerThread = [1, 64], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#lines = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#memory = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
#most = #ttng.tensor_memory_encoding<blockM = 128, blockN = 256, colStride = 1>
!sum = !ttg.memdesc<128x64xf32, #memory, #ttng.tensor_memory, mutable>
!left = !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>
!right = !ttg.memdesc<64x64xf16, #shared, #ttg.shared_memory>
!most = !ttg.memdesc<2x128x256xf32, #most, #ttng.tensor_memory, mutable>
!tile = tensor<128x64xf16, #rows>
!loaded = tensor<128x64xf16, #lines>
!pointers = tensor<128x64x!tt.ptr<f16>, #lines>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @product(%x: !tile, %y: !loaded, %p: !pointers, %b: !right, %m: !sum, %n: i32) {
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %k = %c0 to %n step %c1 : i32 {
      %z = arith.addf %x, %x : !tile
      %left = ttg.local_alloc %z : (!tile) -> !left
      ttng.tc_gen5_mma %left, %b, %m, %true, %true : !left, !right, !sum
    }
    tt.return
  }
}
"""
COMPUTED = "%z = arith.addf %x, %x : !tile\n      %left = ttg.local_alloc %z : (!tile) -> !left"
OTHERWISE_HELD = "%z = arith.addf %y, %y : !loaded\n      %left = ttg.local_alloc %z : (!loaded) -> !left"
LOADED = "%z = tt.load %p : !pointers\n      %left = ttg.local_alloc %z : (!loaded) -> !left"
PRODUCT = "ttng.tc_gen5_mma %left, %b, %m, %true, %true : !left, !right, !sum"


def promoted(*changes: tuple[str, str], loop: str = LOOP) -> list[str]:
    """The names of the ops in the loop, and whether anything changed."""
    module = Parser(text_of(loop, *changes), unregistered=True).module()
    verify(module)
    changed = promote_lhs_to_tmem(module)
    verify(module)
    text = print_op(module)
    found = re.findall(r"ttg\.convert_layout|ttg\.local_alloc|ttng\.tmem_alloc|ttng\.tc_gen5_mma", text)
    assert changed is ("ttg.local_alloc" not in found)
    return found


def test_a_factor_goes_to_tensor_memory_from_the_thread_that_has_its_row() -> None:
    assert promoted() == ["ttng.tmem_alloc", "ttng.tc_gen5_mma"]


def test_a_factor_that_others_hold_is_converted_first() -> None:
    assert promoted((COMPUTED, OTHERWISE_HELD)) == ["ttg.convert_layout", "ttng.tmem_alloc", "ttng.tc_gen5_mma"]


EIGHT_BITS = LOOP.replace("f16", "f8E5M2").replace("elementBitWidth = 16", "elementBitWidth = 8")
SCALES = "%s, %t, %true, %true lhs = LEFT rhs = e5m2 : !left, !right, !sum, !of_left, !of_right"
SCALED = [
    ("!tile = ", "!of_left = !ttg.memdesc<128x2xi8, #scales, #ttng.tensor_memory>\n!tile = "),
    ("!tile = ", "!of_right = !ttg.memdesc<64x2xi8, #scales, #ttng.tensor_memory>\n!tile = "),
    ("#memory = ", "#scales = #ttng.tensor_memory_scales_encoding<>\n#memory = "),
    ("%n: i32)", "%n: i32, %s: !of_left, %t: !of_right)"),
]


def scaled(left: str) -> list[tuple[str, str]]:
    """The changes that make the product a scaled one."""
    product = f"ttng.tc_gen5_mma_scaled %left, %b, %m, {SCALES.replace('LEFT', left)}"
    return [*SCALED, ("ttng.tc_gen5_mma %left, %b, %m, %true, %true : !left, !right, !sum", product)]


@pytest.mark.parametrize("changes", [pytest.param([], id="plain"), pytest.param(scaled("e5m2"), id="scaled")])
def test_factors_of_eight_bits_go_to_tensor_memory(changes: list[tuple[str, str]]) -> None:
    assert promoted(*changes, loop=EIGHT_BITS)[0] == "ttng.tmem_alloc"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(scaled("e2m1"), id="elements of four bits"),
        pytest.param([(COMPUTED, LOADED)], id="a copy may fill it without registers"),
        pytest.param([(PRODUCT, f'{PRODUCT}\n"test.use"(%left) : (!left) -> ()')], id="somebody else reads it"),
        pytest.param(
            [
                (
                    "#memory = #ttng.tensor_memory_encoding<blockM = 128",
                    "#memory = #ttng.tensor_memory_encoding<blockM = 64",
                )
            ],
            id="instructions of 64 rows",
        ),
        pytest.param([("    }\n    tt.return", "    } {tt.warp_specialize}\n    tt.return")], id="a divided loop"),
        pytest.param(
            [
                ("    scf.for", f"    {COMPUTED}\n    scf.for"),
                (f"      {COMPUTED}\n      ttng", "      ttng"),
            ],
            id="it is stored outside of the loop",
        ),
        pytest.param(
            [
                ("    scf.for", "    %w = ttng.tmem_alloc : () -> !most\n    scf.for"),
            ],
            id="tensor memory is full",
        ),
    ],
)
def test_factors_that_stay_in_shared_memory(changes: list[tuple[str, str]]) -> None:
    assert "ttg.local_alloc" in promoted(*changes)
