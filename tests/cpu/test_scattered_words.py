"""Elements that go from a buffer to addresses from a buffer are moved one by one, and nothing else is."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.choose_widths import WORDS, choose_widths
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Nest
from tilewright.ir.parser import parse_module

SIZE = 128

NEST = """
tt.func public @nest(%o: !tt.ptr<f32>, %places: !tt.ptr<tensor<64x!tt.ptr<f32>>, 5>, %x: !tt.ptr<tensor<64xf32>, 5>) {{
  "cpu.nest"() <{{mode = rows, outer = array<i64>}}> ({{
    %i = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %base = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %straight = tt.addptr %base, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %place = "cpu.read"(%places) : (!tt.ptr<tensor<64x!tt.ptr<f32>>, 5>) -> tensor<64x!tt.ptr<f32>>
    %v = "cpu.read"(%x) : (!tt.ptr<tensor<64xf32>, 5>) -> tensor<64xf32>
    %w = math.exp %v : tensor<64xf32>
    {stores}
    "cpu.yield"() : () -> ()
  }}) : () -> ()
  tt.return
}}
"""
SCATTERED = "tt.store %place, %v : tensor<64x!tt.ptr<f32>>"
STRAIGHT = "tt.store %straight, %v : tensor<64x!tt.ptr<f32>>"
COMPUTED = "tt.store %place, %w : tensor<64x!tt.ptr<f32>>"


@pytest.mark.parametrize(
    ("stores", "is_scalar"),
    [
        (SCATTERED, True),
        (SCATTERED + "\n" + SCATTERED, True),
        (STRAIGHT, False),
        (SCATTERED + "\n" + STRAIGHT, False),
        (COMPUTED, False),
    ],
)
def test_only_nests_without_anything_to_compute_have_one_lane(stores: str, is_scalar: bool) -> None:
    module = parse_module(NEST.format(stores=stores))
    choose_widths(module, host_target("x86-64-v3"))
    (nest,) = module.ops_of(Nest)
    assert (nest.lanes == 1) == is_scalar
    assert (list(nest.chunks) == [WORDS]) == is_scalar


@tw.jit
def scatter(x, places, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(places + i, i < n, 0)
    tl.store(out + at, tl.load(x + i, i < n), i < n)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 127, SIZE])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_, ml_dtypes.bfloat16])
def test_scattered_elements(dtype: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    x, places = rng.integers(0, 2, n).astype(dtype), rng.permutation(SIZE)[:n]
    for out in between_guards(SIZE, dtype):
        out[:] = 1
        expected = out.copy()
        expected[places] = x
        scatter[(1,)](x, places, out, n, BLOCK=SIZE)
        np.testing.assert_array_equal(out, expected)


def test_sources_may_lie_where_elements_go() -> None:
    x, places = np.arange(SIZE, dtype=np.float32), np.random.default_rng(1).permutation(SIZE)
    expected = np.empty_like(x)
    expected[places] = x
    scatter[(1,)](x, places, x, SIZE, BLOCK=SIZE)
    np.testing.assert_array_equal(x, expected)
