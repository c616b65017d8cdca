"""Products of f32 by several products of tf32 or bf16: their text, and how near they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.assembly import to_tf32
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.f32_dot_tc import F32DotOptions, f32_dot_tc

pytestmark = pytest.mark.quick

assert tilewright.dialects.__all__

ADDRESSES = """
  %r = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
  %o = tt.reshape %r : tensor<256xi32> -> tensor<16x16xi32>
"""
LOAD = """
  %{0}s = tt.splat %{0} : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
  %{0}p = tt.addptr %{0}s, %o : tensor<16x16x!tt.ptr<f32>>, tensor<16x16xi32>
  %{0}v = tt.load %{0}p : tensor<16x16x!tt.ptr<f32>>
"""


def kernel(precision: str) -> str:
    return f"""
    tt.func public @f(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>) {{
    {ADDRESSES}{LOAD.format("a")}{LOAD.format("b")}{LOAD.format("c")}
      %d = tt.dot %av, %bv, %cv, inputPrecision = {precision}
        : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
      tt.store %cp, %d : tensor<16x16x!tt.ptr<f32>>
      tt.return
    }}
    """


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_text(precision: str, golden: Callable[[str, str], None]) -> None:
    module = parse_module(kernel(precision))
    assert f32_dot_tc(module)
    verify(module)
    golden(print_op(module), f"transforms/f32_dot_tc/{precision}.ttir")


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_other_precisions_stay(precision: str) -> None:
    assert not f32_dot_tc(parse_module(kernel(precision)))


def test_a_device_without_tf32_keeps_it() -> None:
    assert not f32_dot_tc(parse_module(kernel("tf32x3")), F32DotOptions(emu_tf32=False))


def computed(precision: str, a: Any, b: Any) -> Any:
    module = parse_module(kernel(precision))
    f32_dot_tc(module)
    c = np.full((16, 16), 0.5, np.float32)
    run_ir(module, {"a": a, "b": b, "c": c})
    return c


@pytest.mark.parametrize(("precision", "error"), [("tf32x3", 2**-20), ("bf16x3", 2**-15), ("bf16x6", 2**-22)])
def test_the_sum_of_the_parts_comes_near(precision: str, error: float) -> None:
    generator = np.random.default_rng(1)
    a, b = (generator.uniform(0.5, 1, (16, 16)).astype(np.float32) for _ in "ab")
    exact = a.astype(np.float64) @ b + 0.5
    found = np.abs(computed(precision, a, b) - exact).max() / exact.max()
    assert found < error
    one = a.astype(ml_dtypes.bfloat16).astype(np.float64) @ b.astype(ml_dtypes.bfloat16) + 0.5
    assert found < np.abs(one - exact).max() / exact.max() / 10, "better than one product"


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_infinity_times_one_is_infinity(precision: str) -> None:
    a, b = np.zeros((16, 16), np.float32), np.ones((16, 16), np.float32)
    a[0, 0] = np.inf
    found = computed(precision, a, b)
    assert np.isposinf(found[0]).all()
    assert (found[1:] == 0.5).all()


def test_rounding_to_tf32() -> None:
    given = np.array([1 + 2**-11, 1 + 2**-12, -(1 + 2**-11), np.inf, 3e38, 0.0], np.float32)
    assert to_tf32(given).tolist() == [1 + 2**-10, 1.0, -(1 + 2**-10), np.inf, float(to_tf32(given[4:5])[0]), 0.0]
    assert np.isnan(to_tf32(np.array([np.nan], np.float32))).all()
