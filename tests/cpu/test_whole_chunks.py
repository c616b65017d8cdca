"""Rows that end within the tile, in every program: whole chunks of lanes need no masks, the others do."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here
from tilewright.backends.cpu.pipeline import loops
from tilewright.backends.llvm.machine import host_target

TILE = 256
LENGTHS = (-3, 0, 1, 7, 8, 31, 32, 33, 64, 100, 127, 128, 200, 248, 255, 256, 300)
DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.int64, np.float64)


@tw.jit
def reductions(x, out, n, s, B: tl.constexpr):
    i, row = tl.arange(0, B), tl.program_id(0)
    v = tl.load(x + row * s + i, i < n, other=1)
    tl.store(out + row * 4, tl.sum(v, 0))
    tl.store(out + row * 4 + 1, tl.max(v, 0))
    tl.store(out + row * 4 + 2, tl.min(tl.load(x + row * s + i, i < n, other=3), 0))
    tl.store(out + row * 4 + 3, tl.argmax(v, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cpu", ["", *run_here("x86-64-v2", "x86-64-v3")])
def test_reductions(dtype, cpu, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.random.default_rng(0).integers(-9, 9, (3, 300)).astype(dtype)
    for n in LENGTHS:
        out = np.zeros((3, 4), dtype)
        reductions[(3,)](x, out, n, 300, TILE)
        row = np.where(np.arange(TILE) < n, x[:, :TILE].astype(np.float64), 1)
        least = np.where(np.arange(TILE) < n, x[:, :TILE].astype(np.float64), 3).min(1)
        for found, wanted in zip(out.T, (row.sum(1), row.max(1), least, row.argmax(1)), strict=True):
            np.testing.assert_array_equal(found, wanted.astype(np.int64).astype(dtype), err_msg=str(n))


@tw.jit
def scaled(x, out, n, s, B: tl.constexpr):
    i, row = tl.arange(0, B), tl.program_id(0)
    v = tl.load(x + row * s + i, i < n, other=0.0)
    tl.store(out + row * s + i, v / tl.sum(v, 0), i < n)


@pytest.mark.parametrize("n", [n for n in LENGTHS if 0 < n <= TILE])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_lanes_that_are_masked_off_touch_nothing(n, dtype):
    for x, out in zip(between_guards(3 * n, dtype), between_guards(3 * n, dtype), strict=True):
        x[:] = 1 + np.arange(3 * n) % 2
        scaled[(3,)](x, out, n, n, TILE)
        rows = x.reshape(3, n).astype(np.float32)
        np.testing.assert_allclose(out.reshape(3, n), rows / rows.sum(1, keepdims=True), rtol=1e-3)


@tw.jit
def several_ends(x, out, n, m, k, big, B: tl.constexpr):
    """Masks that end here and there, one that all lanes share, and one whose sum may wrap."""
    i = tl.arange(0, B)
    a = tl.load(x + i, (i < n) & (k > 0), other=2)
    b = tl.load(x + i, i < m, other=5)
    tl.store(out, tl.sum(a * 3 + b, 0) + tl.sum(tl.where(i < n, b, 7), 0))
    tl.store(out + 1 + i, tl.where(i + big < m, a, b), i < n)


@pytest.mark.parametrize("k", [1, 0])
@pytest.mark.parametrize("big", [0, 100, 2**31 - 100])
def test_ends_of_several_masks(k, big):
    x, i = np.arange(TILE, dtype=np.int32) % 11, np.arange(TILE)
    for n, m in ((100, 200), (200, 100), (64, 64), (3, 250), (250, 3), (256, 70), (70, 300), (-1, 40), (40, 0)):
        out = np.full(TILE + 1, -7, np.int32)
        several_ends[(1,)](x, out, n, m, k, big, TILE)
        a, b = np.where((i < n) & (k > 0), x, 2), np.where(i < m, x, 5)
        wrapped = (i + big + 2**31) % 2**32 - 2**31
        wanted = np.where(i < n, np.where(wrapped < m, a, b), -7)
        assert out[0] == (a * 3 + b).sum() + np.where(i < n, b, 7).sum(), (n, m)
        np.testing.assert_array_equal(out[1:], wanted, err_msg=f"{n} {m}")


@tw.jit
def last_tile(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


@tw.jit
def last_turn(x, out, n, B: tl.constexpr):
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


@tw.jit
def loaded_end(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < tl.load(x)) + 1, i < n)


@tw.jit
def by_rows(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


@pytest.mark.parametrize(
    ("kernel", "is_split"), [(by_rows, True), (last_tile, False), (last_turn, False), (loaded_end, False)]
)
def test_where_only_some_rows_end_within_the_tile_code_is_short(kernel, is_split):
    """Only a number that is the same in all programs is worth a loop, whose turns are several vectors of 8 lanes."""
    x = np.full(1024, 70, np.float32)
    ttcir = kernel.warmup(x, x, 1000, 1024, grid=(1,)).asm["ttcir"]
    text = loops(ttcir, host_target("x86-64-v3"))
    steps = re.findall(r"arith.andi %\w+, %c-(\d+)_i64 ", text)
    assert any(int(step) > 8 for step in steps) == is_split
