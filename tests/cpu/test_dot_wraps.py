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
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op


@tw.jit
def product(
    a,
    b,
    c,
    M,
    N,
    K,
    first_m,
    first_n,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
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


@tw.jit
def clipped(
    a,
    b,
    c,
    M,
    N,
    K,
    stride,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
):
    """The tile at the end of a matrix, which stores what does not wrap; columns of B are `stride` apart."""
    rows, columns, k = (
        tl.program_id(0) * BM + tl.arange(0, BM),
        tl.program_id(1) * BN + tl.arange(0, BN),
        tl.arange(0, BK),
    )
    m, n = rows % M, columns % N
    total = tl.zeros((BM, BN), ACC)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(k < K - start)[None, :], other=0)
        right = tl.load(b + (start + k)[:, None] * N * stride + n[None, :] * stride, (k < K - start)[:, None], 0)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=ACC)
    tl.store(c + rows[:, None] * N + columns[None, :], total, (rows < M)[:, None] & (columns < N)[None, :])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("m", "n", "stride"), [(16, 16, 1), (5, 16, 1), (37, 48, 1), (1, 37, 1), (40, 1, 1), (20, 16, 2), (33, 80, 3)]
)
def test_what_wraps_and_is_not_stored_is_not_read(m: int, n: int, stride: int, dtype: Any) -> None:
    """Rows and columns that count are read in place; A and B begin, or end, at pages that must not be touched."""
    accumulator = tl.int32 if dtype is np.int8 else tl.float32
    k = 40
    for end in (0, 1):
        a, b = (between_guards(count, dtype)[end] for count in (m * k, (k * n - 1) * stride + 1))
        for array in (a, b):
            array[:] = np.random.default_rng(array.size).integers(-4, 5, array.size)
        dense = b[::stride].reshape(k, n)
        found = np.zeros((m, n), str(accumulator).replace("fp", "float"))
        grid = tw.cdiv(m, 32), tw.cdiv(n, 64)
        clipped[grid](a, b, found, m, n, k, stride, BM=32, BN=64, BK=16, ACC=accumulator)
        np.testing.assert_array_equal(found, a.astype(np.float64).reshape(m, k) @ dense.astype(np.float64))


def test_a_tile_is_read_in_place_where_what_counts_does_not_wrap() -> None:
    """Only the rows and columns that are stored have to end before M and N: %M - 32 is compared with nothing."""
    x = np.zeros(64, np.float32)
    kernel = clipped.warmup(x, x, x, 5, 16, 40, 1, BM=32, BN=64, BK=16, ACC=tl.float32, grid=(1, 1))
    module = parse_module(kernel.asm["ttcir"])
    for step in loop_passes(host_target()):
        step.function(module)
        if step.name == "copy_elision":
            break
    compared = re.findall(r"arith.subi %([MN]), %(\w+) : i32", print_op(module))
    assert sorted({extent for extent, _ in compared}) == ["M", "N"]
    assert not [lanes for _, lanes in compared if lanes.startswith("c")]
