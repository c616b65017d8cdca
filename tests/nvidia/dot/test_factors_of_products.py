"""Factors of products in tensor memory and in buffers that running products read, beside NumPy on simulated devices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

ROWS, DEPTH = 128, 128
"""The rows of a product and what a step of a scaled one sums over."""
KINDS: dict[str, tuple[tl.dtype, Any]] = {
    "e5m2": (tl.float8e5, ml_dtypes.float8_e5m2),
    "e4m3": (tl.float8e4nv, ml_dtypes.float8_e4m3fn),
}
ALL_KINDS = {**KINDS, "f16": (tl.float16, np.float16)}


@tw.jit
def product(a, b, c, K, LEFT: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr):
    i, j, q = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    sum = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, K, DEPTH):
        x = tl.load(a + i[:, None] * K + (k + q)[None, :])
        y = tl.load(b + (k + q)[:, None] * COLUMNS + j[None, :])
        sum = tl.dot((x + 1).to(LEFT), y, sum)
    tl.store(c + i[:, None] * COLUMNS + j[None, :], sum)


@tw.jit
def scaled_product(
    a, b, c, s, t, K, LEFT: tl.constexpr, KIND: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr
):
    i, j, q, g = tl.arange(0, 128), tl.arange(0, COLUMNS), tl.arange(0, DEPTH), tl.arange(0, DEPTH // 32)
    sum = tl.zeros((128, COLUMNS), tl.float32)
    for k in range(0, K, DEPTH):
        x = tl.load(a + i[:, None] * K + (k + q)[None, :])
        y = tl.load(b + (k + q)[:, None] * COLUMNS + j[None, :])
        of_x = tl.load(s + i[:, None] * (K // 32) + (k // 32 + g)[None, :])
        of_y = tl.load(t + j[:, None] * (K // 32) + (k // 32 + g)[None, :])
        sum = tl.dot_scaled((x + 1).to(LEFT), of_x, KIND, y, of_y, "e5m2", sum)
    tl.store(c + i[:, None] * COLUMNS + j[None, :], sum)


def in_tensor_memory(kernel: Any, kind: str) -> bool:
    element = kind if kind == "f16" else f"f8{kind.upper()}"
    return any("tmem_alloc" in line and element in line.replace("FN", "") for line in kernel.asm["ttgir"].splitlines())


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "num_warps"), [(128, 32, 64, 4), (64, 128, 128, 8), (64, 32, 32, 4)]
)
def test_products(kind: str, rows: int, depth: int, columns: int, num_warps: int) -> None:
    left, dtype = ALL_KINDS[kind]
    numbers = np.random.default_rng(0)
    k = 3 * depth
    a = numbers.integers(-2, 3, (rows, k)).astype(np.float16)
    b = numbers.integers(-2, 3, (k, columns)).astype(dtype)
    arguments = [a, b, np.zeros((rows, columns), np.float32), k]
    constants = {"LEFT": left, "ROWS": rows, "DEPTH": depth, "COLUMNS": columns}
    kernel = compiled(product, arguments, capability=100, num_warps=num_warps, num_stages=3, **constants)
    assert in_tensor_memory(kernel, kind)
    result = launch(kernel, (1,), arguments)[2]
    np.testing.assert_array_equal(result, (a + 1).astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_scaled_products(kind: str) -> None:
    numbers = np.random.default_rng(1)
    k, columns = 3 * DEPTH, 64
    a = numbers.integers(-2, 3, (ROWS, k)).astype(np.float16)
    b = numbers.integers(-2, 3, (k, columns)).astype(ml_dtypes.float8_e5m2)
    s, t = (numbers.integers(126, 129, (size, k // 32)).astype(np.uint8) for size in (ROWS, columns))
    arguments = [a, b, np.zeros((ROWS, columns), np.float32), s, t, k]
    constants = {"LEFT": KINDS[kind][0], "KIND": kind, "DEPTH": DEPTH, "COLUMNS": columns}
    kernel = compiled(scaled_product, arguments, capability=100, num_stages=3, **constants)
    assert in_tensor_memory(kernel, kind)
    result = launch(kernel, (1,), arguments)[2]
    of_a, of_b = (np.repeat(np.exp2(scales.astype(np.float32) - 127), 32, 1) for scales in (s, t))
    expected = ((a + 1).astype(np.float32) * of_a) @ (b.astype(np.float32) * of_b.T)
    np.testing.assert_array_equal(result, expected)


@tw.jit
def used_twice(q, k, c, K, ROWS: tl.constexpr, DEPTH: tl.constexpr):
    i, j = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    sum = tl.zeros((ROWS, DEPTH), tl.float32)
    x = tl.load(q + i[:, None] * DEPTH + j[None, :])
    for start in range(0, K, DEPTH):
        y = tl.load(k + (start + j)[:, None] * DEPTH + j[None, :])
        scores = tl.dot(x, tl.trans(y)).to(tl.float16)
        sum = tl.dot(scores, y * 2, sum)
    tl.store(c + i[:, None] * DEPTH + j[None, :], sum)


def test_a_tile_that_a_product_and_threads_read_is_copied_once() -> None:
    numbers = np.random.default_rng(2)
    rows, depth, k = 128, 64, 192
    q, keys = (numbers.integers(-1, 2, shape).astype(np.float16) for shape in ((rows, depth), (k, depth)))
    arguments = [q, keys, np.zeros((rows, depth), np.float32), k]
    kernel = compiled(used_twice, arguments, capability=100, num_stages=2, ROWS=rows, DEPTH=depth)
    loop = kernel.asm["ttgir"].partition("scf.for")[2]
    assert loop.count("ttg.local_load") == 1
    assert loop.count("ttg.local_store") == 1, "the product of keys and queries reads what was copied"
    result = launch(kernel, (1,), arguments)[2]
    scores = q.astype(np.float32) @ keys.astype(np.float32).T
    np.testing.assert_array_equal(result, scores @ (keys.astype(np.float32) * 2))


@tw.jit
def stored_while_a_product_runs(a, b, c, parts, K, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i[None, :]
    left = tl.make_tensor_descriptor(a, [SIZE, K], [K, 1], [SIZE, SIZE])
    right = tl.make_tensor_descriptor(b, [SIZE, K], [K, 1], [SIZE, SIZE])
    total, other = tl.zeros((SIZE, SIZE), tl.float32), tl.zeros((SIZE, SIZE), tl.float32)
    weights = tl.load(b + at)
    for k in tl.range(0, K, SIZE):
        total = tl.dot(left.load([0, k]), right.load([0, k]).T, total)
        other = tl.dot(tl.clamp(total, -4, 4).to(tl.float8e4nv), weights, other)
    tl.make_tensor_descriptor(parts, [SIZE, SIZE], [SIZE, 1], [SIZE, SIZE]).store([0, 0], total)
    tl.store(c + at, other)


def test_what_a_running_product_reads_keeps_its_place_until_the_wait_behind_the_loop() -> None:
    """The tile that is stored by descriptor lay where the last product of sm_90 still read its right factor."""
    numbers = np.random.default_rng(3)
    size, k = 64, 192
    a, b = (numbers.integers(-2, 3, (size, k)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    arguments = [a, b, np.zeros((size, size), np.float32), np.zeros((size, size), np.float32), k]
    kernel = compiled(stored_while_a_product_runs, arguments, capability=90, num_stages=2, SIZE=size)
    _, _, other, total, *_ = launch(kernel, (1,), arguments)
    weights = b.reshape(-1)[: size * size].reshape(size, size).astype(np.float32)
    sums, expected = np.zeros((size, size), np.float32), np.zeros((size, size), np.float32)
    for start in range(0, k, size):
        x, y = (values[:, start : start + size].astype(np.float32) for values in (a, b))
        sums += x @ y.T
        expected += np.clip(sums, -4, 4) @ weights
    np.testing.assert_array_equal(total, sums)
    np.testing.assert_array_equal(other, expected)
