"""Products that end inside a tile: where one mask cuts both operands short, nothing behind it is read or multiplied."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from guarded_memory import small_integers

import tilewright as tw
import tilewright.language as tl


@tw.jit
def product(
    a, b, c, M, N, a_end, b_end,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, a_end, BK):
        left = tl.load(
            a + m[:, None] * a_end + (start + k)[None, :], mask=(m < M)[:, None] & (k < a_end - start)[None, :], other=0
        )
        right = tl.load(
            b + (start + k)[:, None] * N + n[None, :], mask=(k < b_end - start)[:, None] & (n < N)[None, :], other=0
        )
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


@tw.jit
def one_end(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        inside = k < K - start
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=inside[None, :], other=0)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=inside[:, None], other=0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("depth", [1, 2, 15, 16, 17, 31, 32, 33, 47])
def test_every_depth(depth: int, dtype: Any, end: int) -> None:
    a, b = small_integers(16, depth, dtype, end), small_integers(depth, 64, dtype, end)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    if dtype is not np.int8:
        found = np.zeros((16, 64), np.float32)
        one_end[(1,)](a, b, found, depth, M=16, N=64, BK=16)
        np.testing.assert_array_equal(found, wanted)
    if dtype is np.float32:
        found = np.zeros((16, 64), np.float32)
        product[(1,)](a, b, found, 16, 64, depth, depth, BM=16, BN=64, BK=16)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("rows", "columns"), [(16, 64), (3, 64), (16, 5), (3, 5)])
def test_depth_and_edges(rows: int, columns: int) -> None:
    a, b = small_integers(rows, 21, np.float32, 1), small_integers(21, columns, np.float32, 1)
    found = np.zeros((rows, columns), np.float32)
    product[(1,)](a, b, found, rows, columns, 21, 21, BM=16, BN=64, BK=16)
    np.testing.assert_array_equal(found, a @ b)


def test_zero_times_infinity_counts_where_one_operand_goes_on() -> None:
    a, b = np.ones((16, 16), np.float32), np.ones((16, 64), np.float32)
    a[:, 9] = np.inf
    found = np.zeros((16, 64), np.float32)
    product[(1,)](a, b, found, 16, 64, 16, 9, BM=16, BN=64, BK=16)
    assert np.isnan(found).all()


def test_the_innermost_loop_ends_at_the_depth() -> None:
    a, b, c = np.ones((16, 20), np.float32), np.ones((20, 64), np.float32), np.zeros((16, 64), np.float32)
    text = one_end[(1,)](a, b, c, 20, M=16, N=64, BK=16).asm["llir"]
    blocks = re.split(r"\n(?=\w+:\n)", text)
    kernel = next(block for block in blocks if block.count("llvm.fm") + block.count(" fadd ") >= 8)  # some have no FMA
    assert re.search(r"icmp slt i64 %\w+, %\w+\n", kernel), "not a number known when compiling"
