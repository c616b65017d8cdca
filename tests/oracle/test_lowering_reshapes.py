"""Reshapes as machine code: axes cut and joined at every bit, elements interleaved, repeated, and turned around."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, quick_first

import tilewright.language as tl

DTYPES = (np.float32, np.int8, ml_dtypes.bfloat16, np.float64)


@jit
def through(x, out, N: tl.constexpr, SHAPES: tl.constexpr):
    tile = tl.reshape(tl.load(x + tl.arange(0, N)), SHAPES[0])
    tile = tl.reshape((tile + tile).trans(), SHAPES[1])
    tile = tl.reshape(tile * tile, SHAPES[2])
    tl.store(out + tl.arange(0, N), tl.reshape(tile, (N,)))


CHAINS = [
    ((64, 8), (4, 2, 64), (32, 16)),
    ((2, 256), (128, 4), (16, 32)),
    ((256, 2), (8, 64), (512, 1)),
    ((16, 32), (2, 2, 2, 64), (4, 128)),
    ((4, 128), (64, 2, 4), (1, 512)),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shapes", quick_first(CHAINS, CHAINS[:3]), ids=str)
def test_chains(shapes: tuple[Any, ...], dtype: Any) -> None:
    agree(through, np.arange(512).astype(dtype) % 11, np.zeros(512, dtype), N=512, SHAPES=shapes)


@jit
def interleaved(x, y, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    places = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    a, b = tl.load(x + places), tl.load(y + places, mask=places % 3 != 0, other=1)
    four = tl.interleave(tl.interleave(a, a + b), tl.interleave(b, b * b))
    wide = tl.arange(0, ROWS)[:, None] * (4 * COLUMNS) + tl.arange(0, 4 * COLUMNS)[None, :]
    tl.store(out + wide, four, mask=wide % 7 != 5)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", quick_first([(1, 16), (8, 64), (4, 256), (32, 2)], [(8, 64)]), ids=str)
def test_interleaved(shape: tuple[int, int], dtype: Any) -> None:
    x, y = (np.random.default_rng(n).integers(-3, 4, shape).astype(dtype) for n in (1, 2))
    out = np.zeros((shape[0], 4 * shape[1]), dtype)
    found = agree(interleaved, x, y, out, ROWS=shape[0], COLUMNS=shape[1])[2]
    y[np.arange(y.size).reshape(shape) % 3 == 0] = 1
    parts = (x, y, (x + y).astype(dtype), (y * y).astype(dtype))
    expected = np.where(np.arange(out.size).reshape(out.shape) % 7 != 5, np.stack(parts, -1).reshape(out.shape), out)
    np.testing.assert_array_equal(found, expected)


@jit
def repeated(x, s, out, ROWS: tl.constexpr, GROUPS: tl.constexpr, GROUP: tl.constexpr, ACROSS: tl.constexpr):
    rows, groups, all = tl.arange(0, ROWS), tl.arange(0, GROUPS), tl.arange(0, GROUPS * GROUP)
    scale = tl.load(s + rows[:, None] * GROUPS + groups[None, :]) + 1
    each = tl.reshape(scale[:, :, None].broadcast_to((ROWS, GROUPS, GROUP)), (ROWS, GROUPS * GROUP))
    places = rows[:, None] * (GROUPS * GROUP) + all[None, :]
    if ACROSS:
        each, places = each.trans(), places.trans()
    tl.store(out + places, tl.load(x + places) * each)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("group", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("dtype", quick_first(DTYPES, [np.float32]), ids=lambda dtype: np.dtype(dtype).name)
def test_repeated(dtype: Any, group: int, across: bool) -> None:
    x, s = (
        np.random.default_rng(n).integers(-3, 4, size).astype(dtype)
        for n, size in ((1, (8, 64)), (2, (8, 64 // group)))
    )
    found = agree(repeated, x, s, np.zeros_like(x), ROWS=8, GROUPS=64 // group, GROUP=group, ACROSS=across)[2]
    np.testing.assert_array_equal(found, x * np.repeat(s + 1, group, 1).astype(dtype))


@jit
def four_bits(codes, s, out, ROWS: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    rows, half, group, all = tl.arange(0, ROWS), tl.arange(0, K // 2), tl.arange(0, K // GROUP), tl.arange(0, K)
    code = tl.load(codes + rows[:, None] * (K // 2) + half[None, :])
    number = tl.interleave((code & 15).to(tl.int8) - 8, (code >> 4).to(tl.int8) - 8)
    scale = tl.load(s + rows[:, None] * (K // GROUP) + group[None, :])
    grouped = tl.reshape(number, (ROWS, K // GROUP, GROUP)) * scale[:, :, None]
    total = tl.sum(tl.reshape(grouped, (ROWS, K)), axis=1)
    tl.store(out + rows[:, None] * K + all[None, :], tl.reshape(grouped, (ROWS, K)) + total[:, None])


@pytest.mark.parametrize("group", [8, 32])
def test_numbers_of_four_bits_with_a_scale_per_group(group: int) -> None:
    rng = np.random.default_rng(3)
    codes, s = rng.integers(0, 256, (16, 64), np.uint8), rng.integers(1, 5, (16, 128 // group)).astype(np.float32)
    found = agree(four_bits, codes, s, np.zeros((16, 128), np.float32), ROWS=16, K=128, GROUP=group)[2]
    number = np.stack([codes & 15, codes >> 4], -1).reshape(16, 128).astype(np.float32) - 8
    expected = number * np.repeat(s, group, 1)
    np.testing.assert_array_equal(found, expected + expected.sum(1, keepdims=True))


@jit
def halves(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    places = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    a, b = tl.split(tl.reshape(tl.load(x + places), (ROWS, COLUMNS // 2, 2)))
    turned = tl.reshape(tl.join(-b, a), (ROWS, COLUMNS))
    tl.store(out + places, turned + tl.max(turned, axis=1)[:, None])


@pytest.mark.parametrize("columns", [32, 128])
def test_pairs_that_change_places(columns: int) -> None:
    x = np.random.default_rng(4).standard_normal((8, columns)).astype(np.float32)
    found = agree(halves, x, np.zeros_like(x), ROWS=8, COLUMNS=columns)[1]
    turned = np.stack([-x[:, 1::2], x[:, ::2]], -1).reshape(x.shape)
    np.testing.assert_array_equal(found, turned + turned.max(1, keepdims=True))


@jit
def repeated_pairs(x, out, ROWS: tl.constexpr, COUNT: tl.constexpr):
    pair = tl.load(x + tl.arange(0, ROWS)[:, None] * 2 + tl.arange(0, 2)[None, :])
    wide = tl.broadcast_to(pair[:, :, None], (ROWS, 2, COUNT))
    tl.store(out + tl.arange(0, 2 * ROWS * COUNT), tl.reshape(wide, (2 * ROWS * COUNT,)))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_pairs_of_which_each_is_repeated(count: int) -> None:
    x = np.arange(128, dtype=np.int8)
    found = agree(repeated_pairs, x, np.zeros(128 * count, np.int8), ROWS=64, COUNT=count)[1]
    np.testing.assert_array_equal(found, np.repeat(x, count))
