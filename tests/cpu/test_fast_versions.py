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
SELECTED = """%on = arith.cmpi slt, {}, %limit : tensor<64xi32>
    %none = arith.constant dense<7> : tensor<64xi32>
    %w = arith.select %on, %v, {} : tensor<64xi1>, tensor<64xi32>
    tt.store %p, %w : tensor<64x!tt.ptr<i32>>"""
DIVIDED = """%q = arith.divsi {}, %limit : tensor<64xi32>
    tt.store %p, %q : tensor<64x!tt.ptr<i32>>"""


@pytest.mark.parametrize(
    ("lines", "marks", "assumed"),
    [
        (MASKED.format("%i"), "", ["on"]),
        (MASKED.format("%v"), "", []),
        (MASKED.format("%i"), ", optimize_size = true", []),
        (SELECTED.format("%i", "%none"), "", ["on"]),
        (SELECTED.format("%v", "%none"), "", []),
        (SELECTED.format("%i", "%i"), "", []),
        (DIVIDED.format("%i"), "", ["q"]),
        (DIVIDED.format("%v"), "", []),
    ],
    ids=[
        "mask",
        "mask of loaded lanes",
        "short code",
        "selection",
        "selection by loaded lanes",
        "selection of two",
        "quotient",
        "quotient of loaded lanes",
    ],
)
def test_a_version_relies_on_what_numbers_tell(lines: str, marks: str, assumed: list[str]) -> None:
    """No loop has a version for what depends on lanes that are loaded, as no number in front of it tells that."""
    module = parse_module(NEST.format(lines=lines, marks=marks))
    assert version_loops(module) == bool(assumed)
    verify(module)
    assert [op.value.name for op in module.ops_of(Assume)] == assumed


@tw.jit
def seen_sums_kernel(x_ptr, largest_ptr, sum_ptr, first, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A causal softmax reduces these: row r sees the columns up to `first` + r, if they are below n."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + rows[:, None] * COLUMNS + columns[None, :])
    x = tl.dot(x, tl.full((COLUMNS, COLUMNS), 1.0, tl.float32))
    is_seen = (columns[None, :] < n) & (first + rows[:, None] >= columns[None, :])
    x = tl.where(is_seen, x + columns[None, :], float("-inf"))
    tl.store(largest_ptr + rows, tl.max(x, axis=1))
    tl.store(sum_ptr + rows, tl.sum(tl.where(is_seen, x, 0.0), axis=1))


@pytest.mark.parametrize("n", [0, 5, 31, 32, 33])
@pytest.mark.parametrize("first", [-16, -1, 0, 15, 30, 31, 40])
def test_rows_that_see_all_columns_have_no_mask(first: int, n: int) -> None:
    """The version without masks is for whole rows only: of 16 rows none, some or all may be."""
    x = np.random.default_rng(0).integers(-9, 9, (16, 32)).astype(np.float32)
    largest, total = np.empty(16, np.float32), np.empty(16, np.float32)
    seen_sums_kernel[(1,)](x, largest, total, first, n, ROWS=16, COLUMNS=32)
    columns = np.arange(32)
    is_seen = (columns < n) & (first + np.arange(16)[:, None] >= columns)
    found = x.sum(axis=1, keepdims=True) + columns
    np.testing.assert_array_equal(largest, np.where(is_seen, found, -np.inf).max(axis=1))
    np.testing.assert_array_equal(total, np.where(is_seen, found, 0).sum(axis=1))


def test_a_causal_softmax_has_a_version_without_masks() -> None:
    types = {"x_ptr": "*fp32", "largest_ptr": "*fp32", "sum_ptr": "*fp32", "first": "i32", "n": "i32"}
    constants = {"ROWS": 16, "COLUMNS": 32}
    source = tw.ASTSource(seen_sums_kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    text = tw.compile(source, target=tw.GPUTarget("cpu", "znver5", 0)).asm["loops"]
    largest = text[: text.index("arith.maxnumf")].rpartition("scf.if")[2]
    assert "arith.select" not in largest, largest
