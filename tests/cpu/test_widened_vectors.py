"""Vectors whose elements become wider or narrower: at the ends of what may be touched, and whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded_memory import PAGE, between_guards

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here


@tw.jit
def widened(x, out, n, TILE: tl.constexpr):
    lane = tl.arange(0, TILE)
    tl.store(out, tl.sum(tl.load(x + lane, lane < n, 0).to(tl.int64), 0))


@tw.jit
def narrowed(x, out, n, TILE: tl.constexpr):
    lane = tl.arange(0, TILE)
    tl.store(out + lane, tl.load(x + lane, lane < n, 0).to(out.dtype.element_ty), lane < n)


@pytest.mark.parametrize("cpu", run_here("x86-64-v2", "x86-64-v3", "x86-64-v4"))
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 100, PAGE - 1])
def test_nothing_beyond_the_mask_is_touched(n: int, dtype: str, cpu: str) -> None:
    wide = np.float64 if dtype == "float16" else np.int64
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        for x in between_guards(max(n, 1), dtype):
            x[:] = np.arange(x.size) % 100
            if wide is np.int64:
                total: Any = np.zeros(1, np.int64)
                widened[(1,)](x, total, n, TILE=PAGE)
                assert total[0] == x[:n].sum(dtype=np.int64)
            copy = np.zeros(PAGE, wide)
            narrowed[(1,)](x, copy, n, TILE=PAGE)
            np.testing.assert_array_equal(copy, np.pad(x[:n].astype(wide), (0, PAGE - n)))
            x[:] = 0
            narrowed[(1,)](copy, x, n, TILE=PAGE)
            np.testing.assert_array_equal(x[:n], copy[:n].astype(dtype))


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("source", "target"), [("fp32", "i8"), ("fp32", "i32"), ("fp32", "u8"), ("bf16", "i16")])
def test_integers_of_floats_are_computed_side_by_side(source: str, target: str, cpu: str) -> None:
    """No instruction converts the number of one lane."""
    types = {"x": f"*{source}", "out": f"*{target}", "n": "i32", "TILE": "constexpr"}
    asm = tw.compile(tw.ASTSource(narrowed, types, {"TILE": 1024}), target=tw.GPUTarget("cpu", cpu, 0)).asm["asm"]
    assert "cvttps2dq" in asm
    assert "cvttss2si" not in asm
