"""Loads of elements at one distance: every second column, every third element; nothing outside them is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG


@tw.jit
def constant_step(x, out, STEP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i * STEP))


@tw.jit
def any_step(x, out, step, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i * step))


@tw.jit
def product_kernel(
    a, b, c, a_row, a_column, b_row, b_column,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    ACC: tl.constexpr,
):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), ACC)
    for _ in range(2):
        left = tl.load(a + m[:, None] * a_row + k[None, :] * a_column)
        right = tl.load(b + k[:, None] * b_row + n[None, :] * b_column)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=ACC)
        a += K * a_column
        b += K * b_row
    tl.store(c + m[:, None] * N + n[None, :], total)


def distances() -> Iterator[Any]:
    """Types, steps and sizes: `make test` takes every two of them together."""
    lists = (np.int8, np.int16, np.float32, np.float64), (1, 2, 3, 4, 5), (1, 2, 8, 64)
    for (i, dtype), (j, step), (k, size) in product(*map(enumerate, lists)):
        yield pytest.param(dtype, step, size, marks=LONG if (i + j + k) % 4 else ())


@pytest.mark.parametrize(("dtype", "step", "size"), [*distances()])
def test_one_distance(dtype: Any, step: int, size: int) -> None:
    for kernel in (constant_step, any_step):
        for x in between_guards((size - 1) * step + 1, dtype):
            out = np.zeros(size, dtype)
            kernel[(1,)](x, out, step, B=size)
            assert out.tobytes() == x[::step].tobytes()


@tw.jit
def both_at_any_step(x, y, out, step, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i * step) + tl.load(y + i * step))


def test_small_distances_show_at_run_time() -> None:
    """A nest with one load has versions for rows without gaps: only 2 is left to ask for. With two it has none."""
    x = np.zeros(4096, np.float32)
    for arrays, kernel, wanted in ((2, any_step, ["2"]), (3, both_at_any_step, ["1", "2"])):
        text = kernel.warmup(*[x] * arrays, 5, B=256, grid=(1,)).asm["loops"]
        asked = re.findall(r"arith\.cmpi eq, %\w+, %c(\d+)_i64", text)
        assert [step for step in asked if step != "0"] == wanted, "others are 0, as addresses modulo alignments are"


@pytest.mark.parametrize("a_step", [1, 2, 3, -1, -2, 0])
@pytest.mark.parametrize("b_step", [1, 2, 3, -1, -2, 0])
def test_products_of_strided_matrices(a_step: int, b_step: int) -> None:
    check_product(a_step, b_step, np.float32)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, ml_dtypes.bfloat16])
def test_products_of_strided_matrices_of_all_types(dtype: Any) -> None:
    check_product(2, 2, dtype)


def check_product(a_step: int, b_step: int, dtype: Any) -> None:
    accumulator = {np.int8: tl.int32, np.float64: tl.float64}.get(dtype, tl.float32)
    for m, n, k in ((16, 64, 32), (16, 16, 16)):
        a, b = strided(m, 2 * k, a_step, dtype), strided(2 * k, n, b_step, dtype)
        out = np.zeros((m, n), str(accumulator).replace("fp", "float"))
        steps = [stride // a.itemsize for stride in (*a.strides, *b.strides)]
        product_kernel[(1,)](a, b, out, *steps, M=m, N=n, K=k, ACC=accumulator)
        np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


def strided(rows: int, columns: int, step: int, dtype: Any) -> np.ndarray:
    """A matrix of small integers whose columns lie `step` elements apart; the last element is at the end of a page."""
    row = max(1, abs(step)) * columns + 3
    _, flat = between_guards(row * (rows - 1) + abs(step) * (columns - 1) + 1, dtype)
    flat[:] = np.random.default_rng(rows).integers(-4, 5, flat.size)
    start = flat[-step * (columns - 1) :] if step < 0 else flat
    strides = (row * flat.itemsize, step * flat.itemsize)
    return np.lib.stride_tricks.as_strided(start, (rows, columns), strides)
