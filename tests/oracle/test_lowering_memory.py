"""Loads, stores and atomics as machine code: masks, strides, overlapping arguments, gathers, block pointers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, quick_first, random_numbers

import tilewright.language as tl

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


@jit
def multiply_add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    a = tl.load(x + i, mask=inside)
    b = tl.load(y + i, mask=inside, other=1)
    tl.store(out + i, a * b + a, mask=inside)


@pytest.mark.parametrize("n", [1, 2, 31, 63, 64, 65, 255, 256, 257, 777])
def test_ragged_sizes(n: int) -> None:
    x, y = (random_numbers(np.float32, n, seed) for seed in (1, 2))
    agree(multiply_add, x, y, np.full(n, 9, np.float32), n, B=64, grid=(-(-n // 64),))


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_types(dtype: Any) -> None:
    x, y = (random_numbers(dtype, 100, seed) for seed in (3, 4))
    agree(multiply_add, x, y, np.zeros(100, dtype), 100, B=64, grid=(2,), rtol=1e-2 if dtype in FLOATS[:2] else None)


def test_output_is_an_input() -> None:
    x = random_numbers(np.float32, 200, 5)
    agree(multiply_add, x, x, x, 200, B=64, grid=(4,))


@jit
def shifted(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize("distance", [0, 1, 3, 8, 16, 17, -1, -5, -16, 100])
def test_overlapping_arguments(distance: int) -> None:
    whole = np.arange(700, dtype=np.float32)
    agree(shifted, whole[100:600], whole[100 + distance : 600 + distance], 500, B=512)


@jit
def shifted_rows(x, out, stride, R: tl.constexpr, C: tl.constexpr):
    offsets = tl.arange(0, R)[:, None] * stride + tl.arange(0, C)[None, :]
    tile = tl.load(x + offsets)
    tl.store(out + offsets, tile * 2)
    tl.store(out + offsets, tl.load(x + offsets) + tile)


@pytest.mark.parametrize("distance", [0, 1, 32, 33, -1, -32, 64])
@pytest.mark.parametrize("stride", [32, 40])
def test_overlapping_rows(stride: int, distance: int) -> None:
    whole = np.arange(1000, dtype=np.int32)
    agree(shifted_rows, whole[200:600], whole[200 + distance : 600 + distance], stride, R=8, C=32)


@jit
def two_steps(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i) * 2)
    tl.store(out + i + 1, tl.load(out + B - 1 - i) + tl.load(x + i))


@pytest.mark.parametrize("distance", [0, 1, 5, 64])
def test_store_then_load(distance: int) -> None:
    whole = np.arange(300, dtype=np.int32)
    agree(two_steps, whole[50:150], whole[50 + distance : 150 + distance], B=64)


@jit
def strided_copy(x, out, xs0, xs1, os0, os1, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    tl.store(out + m * os0 + n * os1, tl.load(x + m * xs0 + n * xs1, mask=inside, other=-1) * 3, mask=inside)


VIEWS = {
    "rows": lambda a: a,
    "columns": lambda a: a.T,
    "reversed rows": lambda a: a[::-1],
    "reversed columns": lambda a: a[:, ::-1],
    "every second": lambda a: a[::2, ::2],
    "one row again and again": lambda a: np.broadcast_to(a[3], (20, a.shape[1])),
    "one column again and again": lambda a: np.broadcast_to(a[:, 3:4], (a.shape[0], 20)),
    "reversed and transposed": lambda a: a[::-1, ::-1].T,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", quick_first([np.float32, np.int8, np.float16, np.float64], (np.float32,)))
def test_strides(dtype: Any, view: str) -> None:
    x = VIEWS[view](np.arange(30 * 26).reshape(30, 26).astype(dtype))
    m, n = x.shape
    size = np.dtype(dtype).itemsize
    for out in (np.zeros((m, n), dtype), np.zeros((n, m), dtype).T, np.zeros((m, n), dtype)[::-1, ::-1]):
        strides = [stride // size for stride in (*x.strides, *out.strides)]
        found = agree(strided_copy, x, out, *strides, m, n, BM=32, BN=32)
        np.testing.assert_array_equal(found[1], (x * 3).astype(dtype))


@jit
def gathered(x, indices, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    tl.store(out + i, tl.load(x + tl.load(indices + i, mask=inside, other=0), mask=inside), mask=inside)


@jit
def scattered(x, indices, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    tl.store(out + tl.load(indices + i, mask=inside, other=0), tl.load(x + i, mask=inside) * 2, mask=inside)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, ml_dtypes.bfloat16])
def test_gather_and_scatter(dtype: Any, index: Any) -> None:
    rng = np.random.default_rng(6)
    x = random_numbers(dtype, 300, 7)
    agree(gathered, x, rng.integers(0, 300, 177).astype(index), np.zeros(177, dtype), 177, B=64, grid=(3,))
    places = rng.permutation(300)[:177].astype(index)
    agree(scattered, x, places, np.zeros(300, dtype), 177, B=64, grid=(3,))


@jit
def every_lane_its_mask(x, mask, out, B: tl.constexpr):
    i = tl.arange(0, B)
    wanted = tl.load(mask + i) != 0
    tl.store(out + i, tl.load(x + i, mask=wanted, other=7), mask=(i % 3) != 0)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
def test_general_masks(dtype: Any) -> None:
    mask = np.random.default_rng(8).integers(0, 2, 128).astype(np.int8)
    agree(every_lane_its_mask, random_numbers(dtype, 128, 9), mask, np.zeros(128, dtype), B=128)


@jit
def padded_rows(x, out, n, PAD: tl.constexpr, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + row * B + i, tl.load(x + row * n + i - PAD, mask=(i >= PAD) & (i < n + PAD), other=-2.5))


@pytest.mark.parametrize("n", [1, 5, 50, 60])
def test_masks_with_two_ends(n: int) -> None:
    agree(padded_rows, random_numbers(np.float32, (3, n), 10), np.zeros((3, 64), np.float32), n, PAD=4, B=64, grid=(3,))


@jit
def scalars(x, out, n):
    total = 0.0
    for i in range(n):
        value = tl.load(x + i)
        if value > 0:
            tl.store(out + i, value)
            total += value
    tl.store(out + n, total)


def test_scalar_accesses() -> None:
    agree(scalars, random_numbers(np.float32, 20, 11), np.zeros(21, np.float32), 20)


# Atomics


@jit
def atomic_updates(x, indices, out, old, KIND: tl.constexpr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    inside = i < n
    place = tl.load(indices + i, mask=inside, other=0)
    value = tl.load(x + i, mask=inside)
    if KIND == "add":
        before = tl.atomic_add(out + place, value, mask=inside)
    elif KIND == "max":
        before = tl.atomic_max(out + place, value, mask=inside)
    elif KIND == "min":
        before = tl.atomic_min(out + place, value, mask=inside)
    elif KIND == "and":
        before = tl.atomic_and(out + place, value, mask=inside)
    elif KIND == "or":
        before = tl.atomic_or(out + place, value, mask=inside)
    elif KIND == "xor":
        before = tl.atomic_xor(out + place, value, mask=inside)
    else:
        before = tl.atomic_xchg(out + place, value, mask=inside)
    tl.store(old + i, before, mask=inside)


ATOMICS = [
    *((dtype, kind) for dtype in (np.int32, np.uint32, np.int64, np.uint64) for kind in
      ("add", "max", "min", "and", "or", "xor", "xchg")),
    *((dtype, kind) for dtype in (np.float32, np.float64) for kind in ("add", "max", "min", "xchg")),
    (np.float16, "add"),
]


@pytest.mark.parametrize(("dtype", "kind"), ATOMICS, ids=lambda part: getattr(part, "__name__", part))
def test_atomics_whose_lanes_meet(dtype: Any, kind: str) -> None:
    check_atomics(dtype, kind, np.random.default_rng(12).integers(0, 10, 50))


@pytest.mark.parametrize(("dtype", "kind"), ATOMICS, ids=lambda part: getattr(part, "__name__", part))
def test_atomics_of_separate_elements(dtype: Any, kind: str) -> None:
    check_atomics(dtype, kind, np.random.default_rng(12).permutation(50))


def check_atomics(dtype: Any, kind: str, indices: Any) -> None:
    x, out = random_numbers(dtype, 50, 13), random_numbers(dtype, int(indices.max()) + 1, 14)
    if dtype is np.float16:
        x = np.round(x)
    agree(atomic_updates, x, indices.astype(np.int32), out, np.zeros(50, dtype), KIND=kind, n=50, B=64)


@jit
def histogram(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


def test_atomic_histogram() -> None:
    x = np.random.default_rng(15).integers(0, 50, 500).astype(np.int32)
    found = agree(histogram, x, np.zeros(50, np.int32), 500, B=64, grid=(8,))[1]
    np.testing.assert_array_equal(found, np.bincount(x, minlength=50))


@jit
def compare_and_swap(lock, out, expected, new):
    tl.store(out, tl.atomic_cas(lock, expected, new))
    tl.store(out + 1, tl.atomic_cas(lock, expected, new + 1))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_compare_and_swap(dtype: Any) -> None:
    agree(compare_and_swap, np.array([5], dtype), np.zeros(2, dtype), 5, 8)
    agree(compare_and_swap, np.array([6], dtype), np.zeros(2, dtype), 5, 8)


# Block pointers and descriptors


@jit
def doubled_blocks(
    a, out, M, N, s0, s1, BM: tl.constexpr, BN: tl.constexpr, PADDING: tl.constexpr, ORDER: tl.constexpr
):
    start = tl.program_id(0) * BM
    source = tl.make_block_ptr(a, (M, N), (s0, s1), (start, 0), (BM, BN), ORDER)
    target = tl.make_block_ptr(out, (M, N), (s0, s1), (start, 0), (BM, BN), ORDER)
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(N, BN)):
        tile = tl.load(source, boundary_check=(0, 1), padding_option=PADDING)
        total += tl.where(tile == tile, tile, 100.0)
        tl.store(target, tile * 2 + total, boundary_check=(0, 1))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("shape", [(37, 53), (16, 16), (1, 1), (5, 64)])
def test_block_pointers(shape: tuple[int, int], padding: str) -> None:
    m, n = shape
    for transposed in (False, True):
        a = random_numbers(np.float32, (n, m) if transposed else (m, n), 16)
        strides = (1, m) if transposed else (n, 1)
        order = (0, 1) if transposed else (1, 0)
        constants = {"BM": 16, "BN": 16, "PADDING": padding, "ORDER": order}
        agree(doubled_blocks, a, np.zeros_like(a), m, n, *strides, grid=(-(-m // 16),), **constants)


@jit
def unchecked_blocks(a, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_block_ptr(a, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    tl.store(target, tl.load(source, boundary_check=(0,)) + 1, boundary_check=(0,))


def test_block_pointers_with_one_checked_axis() -> None:
    a = random_numbers(np.float32, (20, 16), 17)
    agree(unchecked_blocks, a, np.zeros_like(a), 20, 16, BM=8, BN=16, grid=(3,))


@jit
def described_blocks(a, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        target.store([row, column], source.load([row, column]) * 2)


def test_descriptors() -> None:
    a = random_numbers(np.float32, (20, 36), 18)
    agree(described_blocks, a, np.zeros_like(a), 20, 36, BM=8, BN=16, grid=(3,))
