"""Comparisons with lanes that no mask lets in: what is known of them whatever stands on the other side."""

from __future__ import annotations

import pytest

from tilewright.analysis.known_lanes import KnownLanes
from tilewright.dialects.arith import Compare
from tilewright.ir.parser import parse_module
from tilewright.transforms.functions import functions_of

COMPARED = """
module {
  tt.func public @kernel(%y: tensor<8xf32>, %p: tensor<8x!tt.ptr<f32>>, %n: i32) {
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %limit = tt.splat %n : i32 -> tensor<8xi32>
    %mask = arith.cmpi slt, %i, %limit : tensor<8xi32>
    %other = arith.constant dense<0x7F800000> : tensor<8xf32>
    %x = tt.load %p, %mask, %other : tensor<8x!tt.ptr<f32>>
    %found = arith.cmpf PREDICATE, %y, %x : tensor<8xf32>
    tt.return
  }
}
"""


@pytest.mark.quick
@pytest.mark.parametrize(("predicate", "is_known"), [("ogt", True), ("ugt", False), ("olt", False), ("oge", False)])
def test_nothing_is_greater_than_infinity_but_nan_may_be_unordered(predicate: str, *, is_known: bool) -> None:
    (function,) = functions_of(parse_module(COMPARED.replace("PREDICATE", predicate)))
    lanes = KnownLanes(8, function.body.args[2], 4)
    for op in function.body:
        lanes.visit(op)
    (found,) = [lanes.of(op.result) for op in function.body if isinstance(op, Compare) and op.name == "arith.cmpf"]
    assert found.known.tolist() == [False] * 4 + [is_known] * 4
    assert not found.numbers[found.known].any()
