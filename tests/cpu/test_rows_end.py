"""Loops over rows end where masks end, or where nobody sees more; bits of lane numbers are known for whole chunks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pass_kernels
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here
from tilewright.dialects.vector import UNLIKELY
from tilewright.ir.printer import print_op

LEVELS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
ROWS, LANES = 8, 32


@tw.jit
def masked_rows(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    tl.store(out + row * LANES + column, tl.load(x + row * LANES + column) + 1.0, mask=row < n)


@tw.jit
def masked_columns_too(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    value = tl.load(x + row * LANES + column)
    tl.store(out + row * LANES + column, value + 1.0, mask=(row < n) & (column < n * 4))


@tw.jit
def two_masks(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    """The second store goes further."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    value = tl.load(x + row * LANES + column)
    tl.store(out + row * LANES + column, value + 1.0, mask=row < n)
    tl.store(out + ROWS * LANES + row * LANES + column, value + 2.0, mask=row < n + 2)


@tw.jit
def whole_behind(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    value = tl.load(x + row * LANES + column)
    tl.store(out + row * LANES + column, value + 1.0, mask=row < n)
    tl.store(out + ROWS * LANES + row * LANES + column, value + 2.0)


@tw.jit
def masked_from_below(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    tl.store(out + row * LANES + column, tl.load(x + row * LANES + column) + 1.0, mask=row >= n)


@tw.jit
def masked_between(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    """Rows end where one of two conditions does; which rows in front of the end count does not matter."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    inside = ((row + n >= 4) & (row < n)) & (column < LANES)
    tl.store(out + row * LANES + column, tl.load(x + row * LANES + column) + 1.0, mask=inside)


@tw.jit
def masked_by_either(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    tl.store(out + row * LANES + column, tl.load(x + row * LANES + column) + 1.0, mask=(row < n) | (column < 3))


@tw.jit
def masked_product(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    """The sums begin with zeros as far as they are seen."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    total = tl.zeros((ROWS, LANES), tl.float32)
    for _ in range(n // 2):
        a = tl.load(x + row * LANES + column)
        b = tl.load(x + tl.arange(0, LANES)[:, None] % ROWS * LANES + column)
        total += tl.dot(a, b, allow_tf32=False)
    tl.store(out + row * LANES + column, total, mask=row < n)
    return total


@tw.jit
def product(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    masked_product(x, out, n, ROWS, LANES)


@tw.jit
def product_and_sum(x, out, n, ROWS: tl.constexpr, LANES: tl.constexpr):
    """The sum sees all rows."""
    column = tl.arange(0, LANES)[None, :]
    total = masked_product(x, out, n, ROWS, LANES)
    tl.store(out + ROWS * LANES + column, tl.sum(total, 0)[None, :])


def expected(kernel: Any, x: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    out = np.zeros((2 * ROWS, LANES), np.float32)
    row, column = np.arange(ROWS)[:, None], np.arange(LANES)[None, :]
    if kernel in (product, product_and_sum):
        total = (n // 2 if n > 0 else 0) * (x @ x[np.arange(LANES) % ROWS])
        out[:ROWS] = np.where(row < n, total, 0)
        if kernel is product_and_sum:
            out[ROWS] = total.sum(0)
        return out
    masks = {masked_from_below: row >= n, masked_by_either: (row < n) | (column < 3)}
    masks[masked_columns_too] = (row < n) & (column < n * 4)
    mask = (masks | {masked_between: (row + n >= 4) & (row < n)}).get(kernel, row < n)
    out[:ROWS] = np.where(mask, x + 1, 0)
    if kernel in (two_masks, whole_behind):
        out[ROWS:] = np.where((row < n + 2) | (kernel is whole_behind), x + 2, 0)
    return out


WHOLE_LOOPS = {
    masked_rows: 0,
    masked_columns_too: 0,
    two_masks: 0,
    whole_behind: 1,
    masked_from_below: 1,
    masked_between: 0,
    masked_by_either: 1,
    product: 1,
    product_and_sum: 3,
}
"""Loops that go through all rows: a product has one that copies what does not lie well, a sum of rows one more."""


@pytest.mark.parametrize("n", [-3, 0, 1, 5, ROWS - 1, ROWS, ROWS + 3])
@pytest.mark.parametrize("kernel", WHOLE_LOOPS, ids=lambda kernel: kernel.__name__)
def test_all_rows_that_count_are_there(kernel: Any, n: int) -> None:
    x = np.random.default_rng(n + 9).integers(-3, 4, (ROWS, LANES)).astype(np.float32)
    out = np.zeros((2 * ROWS, LANES), np.float32)
    kernel[(1,)](x, out, n, ROWS=ROWS, LANES=LANES)
    np.testing.assert_array_equal(out, expected(kernel, x, n))


@pytest.mark.parametrize("kernel", WHOLE_LOOPS, ids=lambda kernel: kernel.__name__)
def test_loops_over_rows_end_early_where_they_may(kernel: Any) -> None:
    x, out = np.zeros((ROWS, LANES), np.float32), np.zeros((2 * ROWS, LANES), np.float32)
    module = pass_kernels.loops_of(kernel, (x, out, 3), "x86-64-v4", ROWS=ROWS, LANES=LANES)
    for copies in [op for op in module.walk() if UNLIKELY in op.attributes]:
        copies.erase()  # copies back are short, and rare
    text = print_op(module)
    whole = re.findall(rf"scf\.for %\w+ = %c0_i64 to %c{ROWS}_i64 step %c1_i64 ", text)
    assert len(whole) == WHOLE_LOOPS[kernel]


ROWS_ARE_ASKED = {masked_rows: False, masked_columns_too: False, two_masks: True, masked_from_below: True}


@pytest.mark.parametrize("kernel", ROWS_ARE_ASKED, ids=lambda kernel: kernel.__name__)
def test_rows_in_front_of_the_only_end_are_not_asked(kernel: Any) -> None:
    x, out = np.zeros((ROWS, LANES), np.float32), np.zeros((2 * ROWS, LANES), np.float32)
    module = pass_kernels.loops_of(kernel, (x, out, 3), "x86-64-v4", ROWS=ROWS, LANES=LANES)
    for copies in [op for op in module.walk() if UNLIKELY in op.attributes]:
        copies.erase()
    text = print_op(module)
    assert bool(re.search(r"arith\.cmpi s\w+, %row", text)) == ROWS_ARE_ASKED[kernel]


@tw.jit
def masked_far_from_zero(x, out, first, n, LANES: tl.constexpr):
    position = first + tl.arange(0, LANES)
    tl.store(out + tl.arange(0, LANES), tl.load(x + tl.arange(0, LANES), position <= n, other=3), mask=position < n)


@pytest.mark.parametrize("n", [-(1 << 63), 1 - (1 << 63), -(1 << 40), 0, 8, 1 << 40, (1 << 63) - 20, (1 << 63) - 1])
@pytest.mark.parametrize("first", [-(1 << 63), 3 - (1 << 63), -(1 << 62), -3, 5, 1 << 62, (1 << 63) - LANES])
def test_ends_farther_away_than_an_integer_can_be(first: int, n: int) -> None:
    """The distance of two positions of 64 bits may have 65."""
    x, out = np.arange(10, 10 + LANES), np.zeros(LANES, np.int64)
    position = [first + lane for lane in range(LANES)]
    masked_far_from_zero[(1,)](x, out, first, n, LANES=LANES)
    np.testing.assert_array_equal(out, np.where([p < n for p in position], x, 0))


@tw.jit
def bits_of_lanes(out, n, BITS: tl.constexpr, FROM: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out + lane, ((lane + FROM) & BITS) + (lane // n) * 1000, mask=lane < BLOCK - 3)


@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("bits", [1, 3, 12, 16, 48, 17, 255, -1, -16, -2])
@pytest.mark.parametrize("n", [7, 40, 512])
def test_bits_of_lane_numbers(bits: int, start: int, n: int, cpu: str) -> None:
    """Quotients make loops whose chunks begin anywhere."""
    lane = np.arange(256)
    out = np.zeros(256, np.int32)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        tw.jit(bits_of_lanes.fn)[(1,)](out, n, BITS=bits, FROM=start, BLOCK=256)
    np.testing.assert_array_equal(out, np.where(lane < 253, ((lane + start) & bits) + lane // n * 1000, 0))


@tw.jit
def only_bits(out, BITS: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.arange(0, BLOCK) & BITS)


@pytest.mark.parametrize(("bits", "computes"), [(1, False), (16, False), (17, True)])
def test_bits_of_lane_numbers_are_known_for_chunks(bits: int, computes: bool) -> None:
    module = pass_kernels.loops_of(only_bits, (np.zeros(256, np.int32),), "x86-64-v4", BITS=bits, BLOCK=256)
    assert bool(re.search(r"arith\.andi .* : vector<\d+xi32>", print_op(module))) == computes
