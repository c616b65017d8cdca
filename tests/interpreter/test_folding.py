"""Reductions in the interpreter, whose extents are any: the level of vector loops reduces over ragged rows."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module

assert tilewright.dialects.__all__

KERNEL = """
tt.func public @f(%out: !tt.ptr<i32>) {{
  %x = tt.make_range {{start = 1 : i32, end = {end} : i32}} : tensor<{count}xi32>
  %total = "tt.reduce"(%x) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: i32, %b: i32):
    {combine}
  }}) : (tensor<{count}xi32>) -> i32
  tt.store %out, %total : !tt.ptr<i32>
  tt.return
}}
"""
ADD = "%c = arith.addi %a, %b : i32\n    tt.reduce.return %c : i32"
LAST = "tt.reduce.return %b : i32"


@pytest.mark.quick
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 9, 13, 31, 33])
def test_every_element_is_reduced_once_and_in_order(count: int) -> None:
    for combine, wanted in ((ADD, count * (count + 1) // 2), (LAST, count)):
        out = np.zeros(1, np.int32)
        run_ir(parse_module(KERNEL.format(end=count + 1, count=count, combine=combine)), [out])
        assert out[0] == wanted, combine
