"""Fast versions of loops rely on conditions; every loop that does tests them, also when an earlier one did."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.version_loops import version_loops
from tilewright.dialects.cpu import Assume
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify


@tw.jit
def largest_kernel(out_ptr, n, start, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)
    column = (start + tl.arange(0, BLOCK)) % n
    tl.store(out_ptr, tl.max(tl.max(row[:, None] * n + column[None, :], axis=1), axis=0))


def test_a_second_row_tests_that_the_range_does_not_wrap() -> None:
    out = np.zeros(1, np.int32)
    largest_kernel[(1,)](out, 40, 32, BLOCK=32)
    assert out[0] == 31 * 40 + 39


NEST = """
tt.func public @some(%x: !tt.ptr<i32>, %n: i32) {{
  "cpu.nest"() <{{mode = rows, outer = array<i64>{marks}}}> ({{
    %i = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %base = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %p = tt.addptr %base, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %limit = tt.splat %n : i32 -> tensor<64xi32>
    %v = tt.load %p : tensor<64x!tt.ptr<i32>>
    {lines}
    "cpu.yield"() : () -> ()
  }}) : () -> ()
  tt.return
}}
"""
MASKED = """%on = arith.cmpi slt, {}, %limit : tensor<64xi32>
    tt.store %p, %v, %on : tensor<64x!tt.ptr<i32>>"""
DIVIDED = """%q = arith.divsi {}, %limit : tensor<64xi32>
    tt.store %p, %q : tensor<64x!tt.ptr<i32>>"""


@pytest.mark.parametrize(
    ("lines", "marks", "assumed"),
    [
        (MASKED.format("%i"), "", ["on"]),
        (MASKED.format("%v"), "", []),
        (MASKED.format("%i"), ", optimize_size = true", []),
        (DIVIDED.format("%i"), "", ["q"]),
        (DIVIDED.format("%v"), "", []),
    ],
    ids=["mask", "mask of loaded lanes", "short code", "quotient", "quotient of loaded lanes"],
)
def test_a_version_relies_on_what_numbers_tell(lines: str, marks: str, assumed: list[str]) -> None:
    """No loop has a version for what depends on lanes that are loaded, as no number in front of it tells that."""
    module = parse_module(NEST.format(lines=lines, marks=marks))
    assert version_loops(module) == bool(assumed)
    verify(module)
    assert [op.value.name for op in module.ops_of(Assume)] == assumed
