"""Matrix products whose operands and accumulators loops carry, branches change and later ops still need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, jit, random_numbers

import tilewright.language as tl

TOLERANCE = 1e-4


def floats(*shape: int, seed: int = 0) -> Any:
    return random_numbers(np.float32, shape, seed).clip(-2, 2)


def run(kernel: Any, n: int, out: Any = None) -> None:
    """Run a kernel of four matrices, one, the result and a number of steps."""
    out = np.zeros((16, 16), np.float32) if out is None else out
    agree(kernel, floats(4, 16, 16), floats(16, 16, seed=1), out, n, B=16, rtol=TOLERANCE)


@jit
def result_needed_after_loop(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    first = tl.dot(tl.load(a + places), tl.load(b + places))
    scaled, summed = first, first
    for _ in range(n):
        scaled = scaled * 0.5 + 1
        summed = tl.dot(tl.load(a + places), tl.load(b + places), summed)
    tl.store(out + places, scaled + summed + first)


@jit
def start_needed_every_time(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    start, total = tl.exp(tl.load(b + places) * 0.1), tl.zeros([B, B], tl.float32)
    for step in range(n):
        total += tl.dot(tl.load(a + step * B * B + places), tl.load(b + places), start)
    tl.store(out + places, total)


@jit
def product_in_a_branch(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    total = tl.zeros([B, B], tl.float32)
    for step in range(n):
        if step % 2 == 0:
            total = tl.dot(tl.load(a + step * B * B + places), tl.load(b + places), total)
        else:
            total = total * 0.5 + tl.dot(tl.trans(total), tl.load(b + places))
    tl.store(out + places, total)


@jit
def products_of_themselves(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    x = tl.load(a + places)
    y = x
    for _ in range(n):
        z = tl.dot(x, y, x) * 0.01
        y = tl.dot(y, x, z)
        x = tl.dot(tl.load(b + places), z + tl.trans(y) * 0.01)
    tl.store(out + places, x + y)


@jit
def products_in_whiles(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    total = tl.zeros([B, B], tl.float32)
    step = 0
    while step < n:
        total = tl.dot(tl.load(a + step * B * B + places), tl.load(b + places), total)
        step += 1
        again = 0
        while again < step:
            total += tl.dot(tl.load(b + places), tl.load(b + places))
            again += 1
    tl.store(out + places, total)


@jit
def accumulators_that_change_places(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    one, other = tl.zeros([B, B], tl.float32), tl.zeros([B, B], tl.float32)
    for step in range(n):
        x, y = tl.load(a + step * B * B + places), tl.load(b + places)
        one = tl.dot(x, y, one)
        other = tl.dot(y, x, other) + one
        if step == 1:
            one, other = other, one
    tl.store(out + places, one - other * 2)


@jit
def operands_overwritten(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    for _ in range(n):
        x, y = tl.load(a + places), tl.load(b + places)
        tl.store(a + places, y * 0.1)
        tl.store(b + places, tl.dot(x, y) * 0.1 + tl.load(a + places))
    tl.store(out + places, tl.load(b + places))


KERNELS = (
    result_needed_after_loop,
    start_needed_every_time,
    product_in_a_branch,
    products_of_themselves,
    products_in_whiles,
    accumulators_that_change_places,
    operands_overwritten,
)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_products(kernel: Any, n: int) -> None:
    run(kernel, n)


@jit
def next_block_from_memory(a, b, following, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    column = i[None, :]
    total, block, half = tl.zeros([B, B], tl.float32), tl.load(following), 0
    for step in range(n):
        left = tl.load(a + (block * B + i)[:, None] * B + column)
        right = tl.load(b + (100 // (n - step) * 0 + half * B + i)[:, None] * B + column)
        total = tl.dot(left, right, total)
        block = tl.load(following + block)
        if block > 2:
            half = 1 - half
    tl.store(out + i[:, None] * B + column, total)


def test_addresses_that_are_loaded() -> None:
    out, following = np.zeros((16, 16), np.float32), np.array([2, 3, 1, 0], np.int32)
    a, b = floats(4, 16, 16), floats(2, 16, 16, seed=1)
    agree(next_block_from_memory, a, b, following, out, 3, B=16, rtol=TOLERANCE)


@jit
def partly_masked(a, b, out, M, B: tl.constexpr):
    i = tl.arange(0, B)
    row, places = i % M, i[:, None] * B + i[None, :]
    x = tl.load(a + row[:, None] * B + i[None, :], mask=(i[None, :] + i[:, None]) < M + 4, other=1.0)
    y = tl.load(b + i[:, None] * B + row[None, :], mask=i[:, None] >= 2)
    z = tl.load(b + places, mask=M > 100, other=0.5)
    tl.store(out + places, tl.dot(x, y) + tl.dot(tl.trans(y), z))


@pytest.mark.parametrize("rows", [1, 3, 16, 31, 32, 200])
def test_operands_with_masks_of_every_kind(rows: int) -> None:
    a, b = floats(200, 32), floats(32, 200, seed=1)
    agree(partly_masked, a, b, np.zeros((32, 32), np.float32), rows, B=32, rtol=TOLERANCE)


@jit
def operand_and_accumulator(a, b, out, B: tl.constexpr):
    i = tl.arange(0, B)
    places = i[:, None] * B + i[None, :]
    x = tl.exp(tl.load(a + places) * 0.1)
    y = x - tl.max(x, 1)[:, None]
    tl.store(out + places, tl.dot(y, tl.load(b + places)) + tl.dot(y, tl.load(b + places), y))


def test_one_tile_as_operand_and_accumulator() -> None:
    agree(operand_and_accumulator, floats(16, 16), floats(16, 16, seed=1), np.zeros((16, 16), np.float32), B=16,
          rtol=TOLERANCE)
