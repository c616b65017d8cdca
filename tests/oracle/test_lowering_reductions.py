"""Reductions and scans as machine code: all kinds, axes and element types, against the interpreters."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, quick_first, random_numbers

import tilewright.language as tl

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
SHAPES = ((16, 32), (64, 8), (4, 128), (1, 16), (2, 2), (128, 1))


@jit
def reduce_axis(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, KIND: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if KIND == "sum":
        result = tl.sum(tile, AXIS)
    elif KIND == "max":
        result = tl.max(tile, AXIS)
    elif KIND == "min":
        result = tl.min(tile, AXIS)
    elif KIND == "argmax":
        result = tl.argmax(tile, AXIS)
    elif KIND == "argmin":
        result = tl.argmin(tile, AXIS)
    else:
        result = tl.xor_sum(tile, AXIS)
    LENGTH: tl.constexpr = N if AXIS == 0 else M
    tl.store(out + tl.arange(0, LENGTH), result)


def result_type(dtype: Any, kind: str) -> Any:
    """The dtype that the kernel stores: sums of small integers are int32 or uint32, indices int32."""
    kind_of_number = np.dtype(dtype).kind
    if kind.startswith("arg"):
        return np.int32
    if kind == "sum" and kind_of_number in "iu" and np.dtype(dtype).itemsize < 4:
        return np.int32 if kind_of_number == "i" else np.uint32
    return dtype


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: tuple[int, int], kind: str, axis: int) -> None:
    x = random_numbers(np.float32, shape, 1)
    out = np.zeros(shape[1 - axis], result_type(np.float32, kind))
    result = agree(reduce_axis, x, out, M=shape[0], N=shape[1], AXIS=axis, KIND=kind)[1]
    np.testing.assert_allclose(result, getattr(x, kind)(axis), rtol=1e-4, atol=1e-4)


def check_type(dtype: Any, kind: str) -> None:
    for axis in (0, 1):
        x = random_numbers(dtype, (8, 32), 2)
        if kind == "sum" and np.dtype(dtype).itemsize == 2:
            x = np.round(x.astype(np.float64)).clip(-3, 3).astype(dtype)  # exact in any order
        out = np.zeros((8, 32)[1 - axis], result_type(dtype, kind))
        agree(reduce_axis, x, out, M=8, N=32, AXIS=axis, KIND=kind)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", quick_first(INTEGERS + FLOATS, (np.uint8, np.int64, np.float16)))
def test_types(dtype: Any, kind: str) -> None:
    check_type(dtype, kind)


@pytest.mark.parametrize("dtype", quick_first(INTEGERS, (np.uint8, np.int64)))
def test_xor_of_integers(dtype: Any) -> None:
    check_type(dtype, "xor")


@jit
def reduce_all(x, out, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out, tl.sum(tile))
    tl.store(out + 1, tl.max(tile))
    tl.store(out + 2, tl.min(tl.sum(tile, 1)))


@pytest.mark.parametrize("shape", SHAPES)
def test_to_a_scalar(shape: tuple[int, int]) -> None:
    agree(reduce_all, random_numbers(np.float32, shape, 3), np.zeros(3, np.float32), M=shape[0], N=shape[1])


@jit
def reduce_cube(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    offsets = (a * B + b) * C + c
    tile = tl.load(x + offsets)
    tl.store(out + offsets, tile - tl.sum(tile, AXIS, keep_dims=True) + tl.max(tile, AXIS, keep_dims=True))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_three_axes(axis: int) -> None:
    x = random_numbers(np.float32, (4, 8, 16), 4)
    agree(reduce_cube, x, np.zeros_like(x), A=4, B=8, C=16, AXIS=axis)


@jit
def larger_of_pairs(a, ai, b, bi):
    take = (a > b) | ((a == b) & (ai < bi))
    return tl.where(take, a, b), tl.where(take, ai, bi)


@jit
def reduce_pairs(x, values, places, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    offsets = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    best, place = tl.reduce((tl.load(x + offsets), offsets), AXIS, larger_of_pairs)
    LENGTH: tl.constexpr = N if AXIS == 0 else M
    tl.store(values + tl.arange(0, LENGTH), best)
    tl.store(places + tl.arange(0, LENGTH), place)


@pytest.mark.parametrize("axis", [0, 1])
def test_several_operands(axis: int) -> None:
    x = np.round(random_numbers(np.float32, (16, 32), 5))
    length = (16, 32)[1 - axis]
    agree(reduce_pairs, x, np.zeros(length, np.float32), np.zeros(length, np.int32), M=16, N=32, AXIS=axis)


@jit
def softmax_rows(x, out, n, N: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, N)
    tile = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
    power = tl.exp(tile - tl.max(tile, 0))
    tl.store(out + row * n + columns, power / tl.sum(power, 0), mask=columns < n)


@pytest.mark.parametrize("n", [1, 7, 64, 100, 128])
def test_ragged_rows(n: int) -> None:
    x = random_numbers(np.float32, (5, n), 6)
    agree(softmax_rows, x, np.zeros_like(x), n, N=128, grid=(5,))


@jit
def scan_axis(
    x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, PRODUCT: tl.constexpr
):
    offsets = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + offsets)
    if PRODUCT:
        result = tl.cumprod(tile, AXIS, reverse=REVERSE)
    else:
        result = tl.cumsum(tile, AXIS, reverse=REVERSE)
    tl.store(out + offsets, result)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(8, 64), (64, 16), (2, 4), (4, 256), (1, 8)])
def test_scans(shape: tuple[int, int], axis: int, reverse: bool) -> None:
    x = np.random.default_rng(7).integers(-9, 9, shape).astype(np.float32)
    out = np.zeros_like(x)
    found = agree(scan_axis, x, out, M=shape[0], N=shape[1], AXIS=axis, REVERSE=reverse, PRODUCT=False)[1]
    expected = np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.uint32])
def test_scan_types(dtype: Any) -> None:
    x = np.random.default_rng(8).integers(1, 3, (4, 16)).astype(dtype)
    for product in (False, True):
        agree(scan_axis, x, np.zeros_like(x), M=4, N=16, AXIS=1, REVERSE=False, PRODUCT=product)


@jit
def later_of_pairs(a, ai, b, bi):
    return tl.where(bi > 0, b, a + b), tl.maximum(ai, bi)


@jit
def segmented_scan(x, flags, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    total, _ = tl.associative_scan((tl.load(x + offsets), tl.load(flags + offsets)), 0, later_of_pairs)
    tl.store(out + offsets, total)


def test_scan_of_several_operands() -> None:
    rng = np.random.default_rng(9)
    x, flags = rng.integers(-9, 9, 128).astype(np.int32), (rng.random(128) < 0.1).astype(np.int32)
    found = agree(segmented_scan, x, flags, np.zeros_like(x), N=128)[2]
    total, expected = 0, []
    for value, flag in zip(x, flags, strict=True):
        total = value if flag else total + value
        expected.append(total)
    np.testing.assert_array_equal(found, expected)


@jit
def sort_rows(x, out, M: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    offsets = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + offsets, tl.sort(tl.load(x + offsets), descending=DESCENDING))


@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending: bool) -> None:
    x = random_numbers(np.float32, (4, 32), 10)
    found = agree(sort_rows, x, np.zeros_like(x), M=4, N=32, DESCENDING=descending)[1]
    expected = np.sort(x, 1)
    np.testing.assert_array_equal(found, expected[:, ::-1] if descending else expected)
