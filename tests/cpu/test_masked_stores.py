"""Stores under masks where these are slow: vectors whose lanes are all on are stored without one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here

CPUS = run_here("x86-64-v2", "x86-64-v3", "znver2", "znver3", "x86-64-v4", "aarch64")
B = 64
MASKS = {
    "all": np.ones(B, bool),
    "none": np.zeros(B, bool),
    "one off": np.arange(B) != 13,
    "one on": np.arange(B) == 13,
    "vectors": np.arange(B) // 8 % 3 == 0,
    "any": np.random.default_rng(5).integers(0, 2, B).astype(bool),
}


@tw.jit
def chosen(x, on, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i) + 1, mask=tl.load(on + i) != 0)


@tw.jit
def rows(x, out, count, stride, B: tl.constexpr):
    """Where rows end depends on the program, so that their masks are not left out by another version."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    row = tl.program_id(1)
    inside = (i < count) & (row < 3)
    tl.store(out + row * stride + i, tl.load(x + row * stride + i, mask=inside) + 1, mask=inside)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("mask", MASKS)
def test_lanes_that_are_off_stay(mask: str, dtype: Any, cpu: str) -> None:
    x, out, on = np.arange(B).astype(dtype), np.full(B, 77, dtype), MASKS[mask]
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        chosen[(1,)](x, on.view(np.uint8), out, B=B)
    np.testing.assert_array_equal(out, np.where(on, x + 1, 77))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("count", [0, 5, 8, 61, 64, 70, 128])
def test_rows_end_where_they_do(count: int, cpu: str) -> None:
    x, out = np.arange(4 * 130, dtype=np.float32).reshape(4, 130), np.full((4, 130), 77, np.float32)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        rows[(2, 4)](x, out, count, 130, B=B)
    expected = np.full((4, 130), 77, np.float32)
    expected[:3, :count] = x[:3, :count] + 1
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("cpu", "asks"), [("znver2", True), ("znver3", True), ("x86-64-v3", False), ("znver4", False)])
@code_on("znver5")
def test_which_processors_ask(cpu: str, asks: bool) -> None:
    source = tw.ASTSource(chosen, {"x": "*fp32", "on": "*u8", "out": "*fp32", "B": "constexpr"}, {"B": B})
    text = tw.compile(source, target=tw.GPUTarget("cpu", cpu, 0)).asm["llir"]
    questions = len(re.findall(r"= call i1 @llvm.vector.reduce.and", text))
    assert questions == (len(re.findall(r"call void @llvm.masked.store", text)) if asks else 0)


@tw.jit
def never(x, out, n):
    """The mask of the store in the loop never holds, which is known only when the tiles are loops."""
    row = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None]
    column = tl.arange(0, 16)[None, :].to(tl.int64)
    place = tl.where((row * 16 + column < 2) | (column < 1), row * 64 + column, row)
    value = tl.load(x + place, mask=(n - column > n) & (column >= 2), other=0.0)
    for _ in range(1, n % 5):
        tl.store(
            out + row * 64 + column + 5, value, mask=(column + 16 < 15) & (column >= n) & (column < 64) & (row < 64)
        )
        value = value * 0.5
    tl.store(out + row * 64 + column, tl.full((4, 16), 1.0, tl.float32), mask=(row < 48) & (column < n))


def test_a_store_in_a_loop_may_never_happen() -> None:
    out = np.zeros((4, 64), np.float32)
    never[(1,)](np.ones(300, np.float32), out, 18)
    assert (out == (np.arange(64) < 16)).all()
