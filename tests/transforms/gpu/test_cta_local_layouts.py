"""Scans, gathers and histograms get whole tiles where blocks would have to work together, and only there."""

from __future__ import annotations

import pytest

from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.cta_local_layouts import cta_local_layouts

BLOCKED = "#ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [2, 2], order = [1, 0]{}}}>"
DIVIDED = ", CGALayout = [[1, 0]]"
MODULE = """
#rows = LAYOUT
module attributes {"ttg.num-ctas" = CTAS : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%x: tensor<64x64xi32, #rows>, %i: tensor<64x64xi32, #rows>) -> tensor<64x64xi32, #rows> {
    OP
    tt.return %y : tensor<64x64xi32, #rows>
  }
}
"""
SCAN = """%y = "tt.scan"(%x) <{axis = AXIS : i32, reverse = false}> ({
    ^bb0(%a: i32, %b: i32):
      %s = arith.addi %a, %b : i32
      tt.scan.return %s : i32
    }) : (tensor<64x64xi32, #rows>) -> tensor<64x64xi32, #rows>"""
GATHER = """%y = tt.gather %x[%i] {axis = AXIS : i32} :
      (tensor<64x64xi32, #rows>, tensor<64x64xi32, #rows>) -> tensor<64x64xi32, #rows>"""


def conversions(op: str, axis: int, ctas: int) -> int:
    """The number of conversions after the pass, which must leave a valid module."""
    layout = BLOCKED.format(DIVIDED if ctas > 1 else "")
    text = MODULE.replace("OP", op.replace("AXIS", str(axis))).replace("LAYOUT", layout).replace("CTAS", str(ctas))
    module = parse_module(text)
    cta_local_layouts(module)
    verify(module)
    return print_op(module).count("ttg.convert_layout")


@pytest.mark.parametrize(("op", "added"), [(SCAN, 2), (GATHER, 1)])
def test_along_the_axis_that_blocks_divide(op: str, added: int) -> None:
    assert conversions(op, 0, 2) == added


@pytest.mark.parametrize("op", [SCAN, GATHER])
def test_what_each_block_can_do_alone(op: str) -> None:
    assert conversions(op, 1, 2) == 0
    assert conversions(op, 0, 1) == 0
