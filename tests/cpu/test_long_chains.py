"""Long chains of ops that are no tile arithmetic: what follows operands from op to op ends at some depth."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG
from lowered_code import code_on

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from hard_kernels import views_kernel

SIZE = 64
DEEP = [pytest.param(1100, marks=pytest.mark.slow), pytest.param(2000, marks=LONG)]
"""More steps than Python takes calls within calls."""


@tw.jit
def halves(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    for _ in tl.static_range(COUNT):
        x, _ = tl.split(tl.reshape(tl.broadcast_to(x[:, None], [N, 2]), [N, 2]))
    tl.store(out_ptr + i, x)


@tw.jit
def transposed(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    for _ in tl.static_range(COUNT):
        x = tl.reshape(tl.trans(tl.reshape(x, [8, N // 8])), [N])
        x = tl.reshape(tl.trans(tl.reshape(x, [N // 8, 8])), [N])
    tl.store(out_ptr + i, x)


@tw.jit
def shuffled(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    for _ in tl.static_range(COUNT):
        x = tl.reshape(tl.trans(tl.join(*tl.split(tl.reshape(x, [N // 2, 2])))), [N])
    tl.store(out_ptr + i, x)


@tw.jit
def scalars(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    s = tl.sum(x)
    for k in tl.static_range(COUNT):
        s = (s ^ k) + 1
    tl.store(out_ptr + i, x + s)


@tw.jit
def places(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    place, none = i, tl.num_programs(0) - 1
    for k in tl.static_range(COUNT):
        place = place + none * (k * k + 1)
    tl.store(out_ptr + i, tl.load(x_ptr + place))


@pytest.mark.spared
@pytest.mark.parametrize("count", [400, *DEEP])
@pytest.mark.parametrize("kernel", [views_kernel, halves, transposed, places], ids=lambda kernel: kernel.__name__)
def test_a_long_chain_leaves_the_tile_as_it_was(kernel, count):
    x = np.random.default_rng(0).integers(0, 1000, SIZE).astype(np.int32)
    out = np.zeros_like(x)
    kernel[(1,)](x, out, SIZE, count)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("count", [400, *DEEP])
def test_many_scalars_from_a_reduction(count):
    x = np.arange(SIZE, dtype=np.int32)
    out, total = np.zeros_like(x), int(x.sum())
    scalars[(1,)](x, out, SIZE, count)
    for k in range(count):
        total = (total ^ k) + 1
    np.testing.assert_array_equal(out, x + total)


@pytest.mark.parametrize("count", [25, pytest.param(400, marks=pytest.mark.slow)])
@code_on("neoverse-v1")
def test_a_long_chain_that_moves_elements(count):
    x = np.arange(SIZE, dtype=np.int32)
    out, expected = np.zeros_like(x), x
    shuffled[(1,)](x, out, SIZE, count)
    for _ in range(count):
        expected = expected.reshape(SIZE // 2, 2).T.ravel()
    np.testing.assert_array_equal(out, expected)


@tw.jit
def branching(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    place = i
    for k in tl.static_range(COUNT):
        place = (place + k) + (place - n)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=place < n, other=-1), mask=place > -n)


def test_a_mask_of_many_ways():
    """Every step uses the one before twice; each is looked at once all the same."""
    x = np.arange(SIZE, dtype=np.int32)
    out, expected = np.full_like(x, -2), np.full_like(x, -2)
    branching[(1,)](x, out, 33, SIZE, 40)
    place = x.copy()
    for k in range(40):
        place = (place + np.int32(k)) + (place - np.int32(33))
    stored = place > -33
    expected[stored] = np.where(place < 33, x, -1)[stored]
    np.testing.assert_array_equal(out, expected)


@tw.jit
def branching_row(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    """A row that the program's number chooses, in a way of many steps, and that ends there."""
    i, row, rows = tl.arange(0, N), tl.program_id(0), tl.arange(0, 2)
    for k in tl.static_range(COUNT):
        row, rows = (row + k) + (row ^ n), (rows + k) + (rows ^ n)
    x = tl.load(x_ptr + (row & 1) * N + i)
    inside = i[None, :] < (rows & 1023)[:, None]
    ends = tl.sum(tl.load(x_ptr + 0 * rows[:, None] + i[None, :], mask=inside, other=0), 1)
    tl.store(out_ptr + i, x - tl.sum(x, 0) + tl.sum(ends, 0))


@pytest.mark.spared
def test_a_row_chosen_in_many_ways():
    """Neither the way to the next program's row nor the one to the row's end is followed twice, or without end."""
    size = 1024
    x = np.arange(2 * size, dtype=np.int32) % 7
    for count in (40, 400):
        out, row, rows = np.zeros(size, np.int32), np.int32(0), np.arange(2, dtype=np.int32)
        branching_row[(1,)](x, out, 33, size, count)
        with np.errstate(over="ignore"):
            for k in range(count):
                row, rows = (row + np.int32(k)) + (row ^ np.int32(33)), (rows + np.int32(k)) + (rows ^ np.int32(33))
        chosen = x[(row & 1) * size :][:size]
        np.testing.assert_array_equal(out, chosen - chosen.sum() + sum(x[: r & 1023].sum() for r in rows))


@tw.jit
def narrowed(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    mask = i < n
    for k in tl.static_range(COUNT):
        mask = (mask & (i + k < n)) & (mask & (i >= k - n))
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask, other=-1) - 1, mask=mask)


def test_a_conjunction_of_many_ways():
    x, out = np.arange(SIZE, dtype=np.int32), np.full(SIZE, -2, np.int32)
    narrowed[(1,)](x, out, 50, SIZE, 40)
    np.testing.assert_array_equal(out, np.where(x < 11, x - 1, -2))


@tw.jit
def narrowed_product(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    mask = (i < n) & (j < n)
    for k in tl.static_range(COUNT):
        mask = (mask & (i < n + k)) & (mask & (j + k < n))
    x = tl.load(x_ptr + i * n + j, mask=mask, other=0)
    tl.store(out_ptr + i * N + j, tl.dot(x, x))


def test_a_product_under_a_conjunction_of_many_ways():
    x, out = np.arange(50 * 50, dtype=np.float32).reshape(50, 50) % 5, np.zeros((SIZE, SIZE), np.float32)
    narrowed_product[(1,)](x, out, 50, SIZE, 40)
    masked = np.zeros((SIZE, SIZE), np.float32)
    masked[:50, :11] = x[:, :11]
    np.testing.assert_array_equal(out, masked @ masked)


@tw.jit
def places(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    place = i
    for k in tl.static_range(COUNT):
        place = (place + k) + (i - n)
    tl.store(out_ptr + i, tl.load(x_ptr + i, place < 0, -1.0), place > -2_000_000)


@pytest.mark.parametrize("count", [60, 110])
def test_addresses_and_masks_stay_together_for_less_than_pythons_depth(count: int) -> None:
    """With 110 steps the mask is a chain of 220 ops, which evaluation would follow through 1100 calls."""
    x, out, i = np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32), np.arange(SIZE)
    places[(1,)](x, out, 30 + count // 2, N=SIZE, COUNT=count)
    place = i + sum(range(count)) + count * (i - (30 + count // 2))
    np.testing.assert_array_equal(out, np.where(place < 0, x, -1))


@tw.jit
def chosen(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.where(i < n, tl.load(x_ptr + i), 0)
    for k in tl.static_range(COUNT):
        x = x * 3 + k
    tl.store(out_ptr + i, x, i < n)


@pytest.mark.parametrize("count", [1100])
def test_a_choice_below_a_long_sum(count):
    """A store and a choice by the same mask: the operands of the stored sum are looked through for choices."""
    x = np.arange(SIZE, dtype=np.int32)
    out, expected = np.full(SIZE, -2, np.int32), x
    chosen[(1,)](x, out, 50, SIZE, count)
    with np.errstate(over="ignore"):
        for k in range(count):
            expected = expected * np.int32(3) + np.int32(k)
    np.testing.assert_array_equal(out, np.where(x < 50, expected, -2))
