"""Matrix products as machine code: shapes, element types, transposed and carried operands."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit

import tilewright.language as tl

bf16 = ml_dtypes.bfloat16
TYPES = (
    (np.float32, np.float32, tl.float32),
    (np.float16, np.float32, tl.float32),
    (np.float16, np.float16, tl.float16),
    (bf16, np.float32, tl.float32),
    (np.int8, np.int32, tl.int32),
    (np.float64, np.float64, tl.float64),
)


def small(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    """Small whole numbers, whose products and sums are exact in every type."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(left, right, out_dtype=OUT))


@pytest.mark.parametrize("types", TYPES, ids=lambda types: f"{np.dtype(types[0]).name}-{np.dtype(types[1]).name}")
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 64, 16), (64, 32, 128), (16, 128, 32)])
def test_product(shape: tuple[int, int, int], types: tuple[Any, Any, Any]) -> None:
    (m, n, k), (dtype, out, language) = shape, types
    a, b = small(dtype, (m, k), 1), small(dtype, (k, n), 2)
    found = agree(product, a, b, np.zeros((m, n), out), M=m, N=n, K=k, OUT=language)[2]
    np.testing.assert_array_equal(found.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


@jit
def batched(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    z = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + z * M * K + m[None, :, None] * K + k[None, None, :])
    right = tl.load(b + z * K * N + k[None, :, None] * N + n[None, None, :])
    tl.store(c + z * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(left, right))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batched(dtype: Any) -> None:
    a, b = small(dtype, (4, 16, 32), 3), small(dtype, (4, 32, 64), 4)
    agree(batched, a, b, np.zeros((4, 16, 64), np.float32), B=4, M=16, N=64, K=32)


@jit
def transposed(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.trans(tl.load(a + k[:, None] * M + m[None, :]))
    right = tl.trans(tl.load(b + n[:, None] * K + k[None, :]))
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(left, right) * 2.0 + 1.0)


@pytest.mark.parametrize("dtype", [np.float32, bf16])
def test_transposed(dtype: Any) -> None:
    a, b = small(dtype, (32, 16), 5), small(dtype, (64, 32), 6)
    agree(transposed, a, b, np.zeros((16, 64), np.float32), M=16, N=64, K=32)


@jit
def blocked(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        inside = start + k < K
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=(m < M)[:, None] & inside[None, :], other=0.0)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=inside[:, None] & (n < N)[None, :], other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


@pytest.mark.parametrize("sizes", [(64, 64, 64), (33, 50, 17), (1, 1, 1), (16, 100, 70)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, bf16])
def test_blocked(dtype: Any, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = small(dtype, (m, k), 7), small(dtype, (k, n), 8)
    grid = (-(-m // 16), -(-n // 32))
    found = agree(blocked, a, b, np.zeros((m, n), np.float32), m, n, k, grid=grid, BM=16, BN=32, BK=16)[2]
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))


@jit
def chained(q, k, v, out, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    queries = tl.load(q + m[:, None] * D + d[None, :])
    total = tl.zeros((M, D), tl.float32)
    peak = tl.full((M,), -float("inf"), tl.float32)
    weight = tl.zeros((M,), tl.float32)
    for start in range(0, 4 * N, N):
        keys = tl.load(k + (start + n)[:, None] * D + d[None, :])
        values = tl.load(v + (start + n)[:, None] * D + d[None, :])
        scores = tl.dot(queries, tl.trans(keys)) * 0.125
        highest = tl.maximum(peak, tl.max(scores, 1))
        power = tl.exp(scores - highest[:, None])
        scale = tl.exp(peak - highest)
        weight = weight * scale + tl.sum(power, 1)
        total = tl.dot(power.to(values.dtype), values, total * scale[:, None])
        peak = highest
    tl.store(out + m[:, None] * D + d[None, :], total / weight[:, None])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_flash_attention(dtype: Any) -> None:
    q, k, v = (small(dtype, (rows, 32), seed) for rows, seed in ((16, 9), (64, 10), (64, 11)))
    out = np.zeros((16, 32), np.float32)
    agree(chained, q, k, v, out, M=16, N=16, D=32, rtol=1e-5 if dtype is np.float32 else 2e-3)


@jit
def computed_from_columns(a, b, s, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ACROSS: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + (m[:, None] + k[None, :] * M if ACROSS else m[:, None] * K + k[None, :])).to(tl.float32)
    right = tl.load(b + (n[None, :] * K + k[:, None] if ACROSS else n[None, :] + k[:, None] * N))
    product = tl.dot(left * 2, right.to(tl.float32) * tl.load(s + n)[None, :])
    tl.store(out + m[:, None] * N + n[None, :], product)


@pytest.mark.spared
@pytest.mark.parametrize("across", [False, True])
def test_operands_computed_from_columns_are_stored_transposed(across: bool) -> None:
    m, n, k = 16, 64, 32
    a, b, s = small(np.int8, (m, k), 5), small(np.int8, (k, n), 6), small(np.float32, (n,), 7)
    given = [np.ascontiguousarray(x.T) if across else x for x in (a, b)]
    out = np.zeros((m, n), np.float32)
    found = agree(computed_from_columns, *given, s, out, M=m, N=n, K=k, ACROSS=across)[3]
    np.testing.assert_array_equal(found, (a.astype(np.float32) * 2) @ (b * s))
    loops = computed_from_columns[(1,)](*given, s, out, M=m, N=n, K=k, ACROSS=across).asm["ttcir"]
    assert f"a_transposed = {str(across).lower()}, b_transposed = {str(across).lower()}" in loops


@jit
def of_one_number(a, out, N: tl.constexpr):
    x = tl.load(a)
    i = tl.arange(0, N)
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(tl.broadcast_to(x, [N, 32]), tl.broadcast_to(x, [32, N])))


def test_tiles_of_one_number() -> None:
    found = agree(of_one_number, np.full(1, 3, np.float32), np.zeros((16, 16), np.float32), N=16)[1]
    np.testing.assert_array_equal(found, np.full((16, 16), 32 * 9, np.float32))
