"""Tiles whose rows and columns are taken modulo the extents, as Triton's tutorial does: the end wraps to the start."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on


@tw.jit
def product(
    a, b, c, M, N, K, first_m, first_n,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACC: tl.constexpr,
):
    m, n, k = (first_m + tl.arange(0, BM)) % M, (first_n + tl.arange(0, BN)) % N, tl.arange(0, BK)
    total = tl.zeros((BM, BN), ACC)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(k < K - start)[None, :], other=0)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=(k < K - start)[:, None], other=0)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=ACC)
    tl.store(c + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], total)


def check(m: int, n: int, k: int, first_m: int, first_n: int, dtype: Any = np.float32) -> None:
    """All of one tile, also what wraps, from arrays that end at a page which must not be touched."""
    accumulator = tl.int32 if dtype is np.int8 else tl.float32
    a, b = (between_guards(rows * columns, dtype)[1] for rows, columns in ((m, k), (k, n)))
    for array in (a, b):
        array[:] = np.random.default_rng(array.size).integers(-4, 5, array.size)
    a, b = a.reshape(m, k), b.reshape(k, n)
    found = np.zeros((16, 64), str(accumulator).replace("fp", "float"))
    product[(1,)](a, b, found, m, n, k, first_m, first_n, BM=16, BN=64, BK=16, ACC=accumulator)
    rows, columns = (first_m + np.arange(16)) % m, (first_n + np.arange(64)) % n
    np.testing.assert_array_equal(found, (a.astype(np.float64) @ b.astype(np.float64))[rows][:, columns])


@pytest.mark.parametrize("first", [0, 1, 15, 16, 17, 40, 63, 64, 99, 100, 130])
@pytest.mark.parametrize("columns", [64, 65, 100])
def test_columns_that_wrap_once(columns: int, first: int) -> None:
    check(20, columns, 32, 0, first)


@pytest.mark.parametrize("columns", [1, 3, 16, 63])
@code_on("neoverse-v1")
def test_columns_that_wrap_many_times(columns: int) -> None:
    check(5, columns, 32, 3, columns // 2)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, ml_dtypes.bfloat16])
def test_types(dtype: Any) -> None:
    check(20, 100, 40, 13, 77, dtype)


@pytest.mark.parametrize("depth", [1, 15, 33])
def test_wrapped_columns_and_the_end_of_k(depth: int) -> None:
    check(20, 100, depth, 13, 77)


def test_rows_that_wrap_are_copied_by_short_loops() -> None:
    """Such copies are rare, so they are no reason for much code: one vector a turn, which may lie in two parts."""
    signature = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    signature |= {"first_m": "i32", "first_n": "i32", "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"}
    constants = {"BM": 16, "BN": 64, "BK": 16, "ACC": tl.float32}
    source = tw.ASTSource(product, signature | {"ACC": "constexpr"}, constants)
    loops = tw.compile(source, target=tw.GPUTarget("cpu", "znver4", 0)).asm["loops"]
    first = r"%(\S+) = vector.maskedload [^\n]*, %cst\S* "
    assert len(re.findall(first + r"(?:[^\n]*\n)*?[^\n]*maskedload [^\n]*, %\1 ", loops)) == 1
