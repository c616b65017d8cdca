"""Ops that rearrange tiles as machine code."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, random_numbers

import tilewright.language as tl

TYPES = (np.float32, np.int8, np.float64, ml_dtypes.bfloat16, np.int64)


@jit
def transpose(x, out, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(tile) * 2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(32, 64), (4, 8), (1, 16), (16, 1)])
def test_transpose(shape: tuple[int, int], dtype: Any) -> None:
    x = random_numbers(dtype, shape, 1)
    found = agree(transpose, x, np.zeros(shape[::-1], dtype), M=shape[0], N=shape[1])[1]
    np.testing.assert_array_equal(found, (x * np.array(2, dtype)).T)


@jit
def permute(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, ORDER: tl.constexpr):
    offsets = (tl.arange(0, A)[:, None, None] * B + tl.arange(0, B)[None, :, None]) * C + tl.arange(0, C)[None, None, :]
    moved = tl.permute(tl.load(x + offsets), ORDER)
    tl.store(out + tl.arange(0, A * B * C), tl.reshape(moved, (A * B * C,)))


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_permute(order: tuple[int, int, int]) -> None:
    x = random_numbers(np.float32, (4, 8, 16), 2)
    found = agree(permute, x, np.zeros(512, np.float32), A=4, B=8, C=16, ORDER=order)[1]
    np.testing.assert_array_equal(found, x.transpose(order).ravel())


@jit
def reshape(x, out, N: tl.constexpr, SHAPE: tl.constexpr):
    tile = tl.reshape(tl.load(x + tl.arange(0, N)), SHAPE)
    sums = tl.sum(tile, 1)
    tl.store(out + tl.arange(0, N), tl.reshape(tile * 3 + sums[:, None], (N,)))


@pytest.mark.parametrize("shape", [(8, 16), (16, 8), (2, 64), (64, 2), (1, 128), (128, 1)])
def test_reshape(shape: tuple[int, int]) -> None:
    x = random_numbers(np.float32, 128, 3)
    agree(reshape, x, np.zeros_like(x), N=128, SHAPE=shape)


@jit
def join_and_split(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    joined = tl.join(a, b)
    tl.store(out + tl.arange(0, 2 * B), tl.reshape(joined, (2 * B,)))
    left, right = tl.split(joined * 2)
    tl.store(out + 2 * B + i, left - right)
    tl.store(out + 3 * B + tl.arange(0, 2 * B), tl.cat(a, b, can_reorder=True))
    tl.store(out + 5 * B + tl.arange(0, 2 * B), tl.interleave(b, a))


@pytest.mark.parametrize("dtype", TYPES)
def test_join_split_cat(dtype: Any) -> None:
    x, y = (random_numbers(dtype, 32, seed) for seed in (4, 5))
    found = agree(join_and_split, x, y, np.zeros(32 * 7, dtype), B=32)[2]
    np.testing.assert_array_equal(found[:64], np.stack([x, y], -1).ravel())
    np.testing.assert_array_equal(found[160:], np.stack([y, x], -1).ravel())


@jit
def gather(x, indices, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if AXIS == 0:
        places = tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :]
    else:
        places = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(out + places, tl.gather(tile, tl.load(indices + places), AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("index", [np.int32, np.int64, np.int8])
def test_gather(index: Any, axis: int) -> None:
    x = random_numbers(np.float32, (16, 8), 6)
    shape = (4, 8) if axis == 0 else (16, 4)
    indices = np.random.default_rng(7).integers(0, x.shape[axis], shape).astype(index)
    found = agree(gather, x, indices, np.zeros(shape, np.float32), M=16, N=8, K=4, AXIS=axis)[2]
    np.testing.assert_array_equal(found, np.take_along_axis(x, indices.astype(np.int64), axis))


@jit
def look_up(x, indices, out, N: tl.constexpr, K: tl.constexpr):
    tl.store(out + tl.arange(0, K), tl.gather(tl.load(x + tl.arange(0, N)), tl.load(indices + tl.arange(0, K)), 0))


@pytest.mark.parametrize("count", [2, 64])
@pytest.mark.parametrize("index", [np.bool_, np.uint8, np.uint16])
def test_narrow_indices_of_a_gather_have_no_sign(index: Any, count: int) -> None:
    x = random_numbers(np.float32, 512, 6)
    indices = np.random.default_rng(7).integers(0, 2 if index is np.bool_ else 256, count).astype(index)
    indices[0] = 1 if index is np.bool_ else 255
    found = agree(look_up, x, indices, np.zeros(count, np.float32), N=512, K=count)[2]
    np.testing.assert_array_equal(found, x[indices.astype(np.int64)])


@jit
def count_values(x, out, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_histogram(dtype: Any) -> None:
    x = np.random.default_rng(8).integers(0, 16, 128).astype(dtype)
    found = agree(count_values, x, np.zeros(16, np.int32), N=128, BINS=16)[1]
    np.testing.assert_array_equal(found, np.bincount(x, minlength=16))


@jit
def broadcasts(x, y, out, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    rows, columns = tl.load(x + m), tl.load(y + n)
    tile = rows[:, None] * columns[None, :] + tl.broadcast_to(rows[:, None], (M, N)) + tl.full((M, N), 3, tl.float32)
    tl.store(out + m[:, None] * N + n[None, :], tl.where(m[:, None] > n[None, :], tile, -tile) + (m + 1)[:, None])


@pytest.mark.parametrize("shape", [(8, 16), (32, 4), (1, 8), (8, 1)])
def test_broadcasts(shape: tuple[int, int]) -> None:
    m, n = shape
    x, y = random_numbers(np.float32, m, 9), random_numbers(np.float32, n, 10)
    agree(broadcasts, x, y, np.zeros(shape, np.float32), M=m, N=n)


@jit
def flip_rows(x, out, M: tl.constexpr, N: tl.constexpr):
    offsets = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + offsets, tl.flip(tl.load(x + offsets), 1))


def test_flip() -> None:
    x = random_numbers(np.float32, (4, 16), 11)
    found = agree(flip_rows, x, np.zeros_like(x), M=4, N=16)[1]
    np.testing.assert_array_equal(found, x[:, ::-1])
