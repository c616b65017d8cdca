"""A comparison is of sums as they are, wrapped: where its result is data, a mask of memory, or the end of a loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here

CPUS = ["", *run_here("x86-64-v2", "x86-64-v3")]
TILE = 64
PROGRAMS = 2
BOUNDS = (3, -5, 0, -(2**31) + 40, 2**31 - 1, 2**31 - 10)
STARTS = (2**31 - 1, 2**31 - 8, 2**31 - 100, -(2**31), -7)


def selects(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.where(i + start < bound, 1, 0))


def converts(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, (bound > i + start).to(tl.int32))


def joins_conditions(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.where((i + start < bound) & (i < 3 * N), 1, 0))


def offers_a_choice(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.where((i + start < bound) | (i == -1), 1, 0))


def extends(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.where((i + start).to(tl.int64) < bound, 1, 0))


def extends_every_second(out, bound, start, N: tl.constexpr):
    """Lanes that go up by more than one make no prefix, so they are compared one by one."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.where((i * 2 + start).to(tl.int64) < bound, 1, 0))


def compares_rows(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * (N // 16) + tl.arange(0, N // 16)
    place = i[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + place, tl.where((i[:, None] * 16 + start < bound) & (place >= 0), 1, 0))


def masks_memory_too(out, bound, start, N: tl.constexpr):
    """The mask of the loads and stores is on everywhere; what is selected by another sum is not its business."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    inside = i < 2 * N
    tl.store(out + i, tl.where(i + start < bound, 1, tl.load(out + i, mask=inside)), mask=inside)


def sums(out, bound, start, N: tl.constexpr):
    """A loop may end where nothing more is added, but not where a wrapped sum is below the bound again."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.sum(tl.where(i + start < bound, 1, 0)) + i * 0)


def maxima(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    greatest = tl.max(tl.where(i + start < bound, i.to(tl.float32), -float("inf")))
    tl.store(out + i, tl.maximum(greatest, -1.0).to(tl.int32) + i * 0)


def counts_on(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.where(i + start < bound, 1, 0)))


def masks(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    inside = i + start < bound
    tl.store(out + i, tl.load(out + i, mask=inside, other=5) + 1, mask=inside)


def masks_by_two_conditions(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, 1, mask=(i + start < bound) & (i < 2 * N) & (bound > -(2**31)))


def masks_by_wider_numbers(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, 1, mask=(i + start).to(tl.int64) < bound)


def masks_rows(out, bound, start, N: tl.constexpr):
    """The loop over rows ends where a mask does."""
    i = tl.program_id(0) * (N // 16) + tl.arange(0, N // 16)
    place = i[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + place, 1, mask=(i[:, None] + start < bound) & (place >= 0))


def sums_what_is_loaded(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    ones = tl.load(out + i, mask=i + start < bound, other=-1) + 1
    tl.debug_barrier()
    tl.store(out + i, tl.sum(ones) + i * 0)


def fills_in_two_steps(out, bound, start, N: tl.constexpr):
    """The second store may be of what the first one stores, so both go through buffers, with their masks."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    odd = tl.load(out + i) + i % 2 == 1
    tl.store(out + i, 1, mask=(i + start < bound) & odd)
    tl.store(out + i, 1, mask=(i + start < bound) & ~odd)


def below(bound: int, start: int, step: int = 1, every: int = 1) -> np.ndarray:
    """Whether the sums of each program, wrapped to 32 bits, are below the bound: [program, lane]."""
    i = np.arange(PROGRAMS * TILE, dtype=np.int64) // every * every
    return ((i * step + start).astype(np.int32) < bound).reshape(PROGRAMS, TILE)


def rows_below(bound: int, start: int) -> np.ndarray:
    """Whether the sums of rows of 16 are below the bound."""
    rows = np.arange(PROGRAMS * TILE, dtype=np.int64) // 16
    return ((rows + start).astype(np.int32) < bound).reshape(PROGRAMS, TILE)


def greatest_below(bound: int, start: int) -> np.ndarray:
    numbers = np.arange(PROGRAMS * TILE).reshape(PROGRAMS, TILE)
    return np.where(below(bound, start), numbers, -1).max(1, keepdims=True)


EXPECTED: dict[Callable[..., Any], Callable[[int, int], np.ndarray]] = {
    selects: below,
    converts: below,
    joins_conditions: below,
    offers_a_choice: below,
    extends: below,
    extends_every_second: lambda bound, start: below(bound, start, step=2),
    compares_rows: lambda bound, start: below(bound, start, every=16),
    masks_memory_too: below,
    sums: lambda bound, start: below(bound, start).sum(1, keepdims=True),
    maxima: greatest_below,
    counts_on: lambda bound, start: below(bound, start).cumsum(1),
    masks: below,
    masks_by_two_conditions: lambda bound, start: below(bound, start) & (bound > -(2**31)),
    masks_by_wider_numbers: below,
    masks_rows: rows_below,
    sums_what_is_loaded: lambda bound, start: below(bound, start).sum(1, keepdims=True),
    fills_in_two_steps: below,
}
"""The numbers that each kernel stores, [program, lane] or [program, 1]."""


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("function", EXPECTED, ids=lambda function: function.__name__)
def test_sums_that_are_compared_wrap(function: Callable[..., Any], cpu: str) -> None:
    kernel = tw.jit(function)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        for bound in BOUNDS:
            for start in STARTS:
                out = np.zeros((PROGRAMS, TILE), np.int32)
                kernel[(PROGRAMS,)](out, bound, start, N=TILE)
                expected = np.broadcast_to(EXPECTED[function](bound, start), out.shape)
                np.testing.assert_array_equal(out, expected, err_msg=f"bound {bound}, start {start}")


def masks_by_sums_of_64_bits(out, bound, start, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.where(i + start < bound, 1, 2), mask=i + start <= bound)


@pytest.mark.parametrize("cpu", CPUS)
def test_sums_of_64_bits_wrap(cpu: str) -> None:
    kernel, lanes = tw.jit(masks_by_sums_of_64_bits), np.arange(TILE)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        for bound in (2**40, -(2**63) + 20, 2**63 - 1):
            for start in (2**63 - 8, -(2**63), 2**40 - 20):
                out = np.zeros(TILE, np.int32)
                kernel[(1,)](out, bound, start, N=TILE)
                sums = (lanes.astype(np.uint64) + np.uint64(start % 2**64)).astype(np.int64)
                expected = np.where(sums < bound, 1, np.where(sums == bound, 2, 0))
                np.testing.assert_array_equal(out, expected, err_msg=f"bound {bound}, start {start}")


def test_lanes_that_are_off_touch_no_memory() -> None:
    """The sums of the mask may wrap, as far as the compiler knows, so its end is a guess until the kernel runs."""
    kernel = tw.jit(masks)
    for size in (1, 7, TILE - 1):
        for out in between_guards(size, np.int32):
            out[:] = 0
            kernel[(1,)](out, -(2**31) + size, -(2**31), N=TILE)
            assert (out == 1).all()


def stores_twice(out, bound, start, N: tl.constexpr):
    """As long as the sum does not wrap, the stores are of elements in front of `bound - start`, and behind it."""
    i = tl.arange(0, N)
    tl.store(out + i, 7, mask=(i + start < bound) & (i >= 5))
    tl.store(out + i + 1, 8, mask=(i + start >= bound) & (i + 1 < N))


@pytest.mark.parametrize("cpu", CPUS)
def test_stores_keep_their_order_where_sums_of_masks_wrap(cpu: str) -> None:
    kernel, lanes = tw.jit(stores_twice), np.arange(TILE)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        for bound in BOUNDS:
            for start in (2**31 - 40, *STARTS):
                out, expected = np.zeros(TILE, np.int32), np.zeros(TILE, np.int32)
                kernel[(1,)](out, bound, start, N=TILE)
                is_below = (lanes + start).astype(np.int32) < bound
                expected[is_below & (lanes >= 5)] = 7
                expected[1:][~is_below[:-1]] = 8
                np.testing.assert_array_equal(out, expected, err_msg=f"bound {bound}, start {start}")


@tw.jit
def by_column_and_row(out, x, columns, rows, first, N: tl.constexpr):
    i, j = first + tl.arange(0, N), first + tl.arange(0, N)
    place = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    seen = (j[None, :] < columns) & (j[None, :] <= i[:, None]) & (i[:, None] < rows)
    tl.store(out + place, tl.where(seen, tl.load(x + place), -1.0))


def test_comparisons_of_one_range_share_its_numbers() -> None:
    x = np.arange(256, dtype=np.float32)
    out = np.zeros((16, 16), np.float32)
    kernel = by_column_and_row[(1,)](out, x, 13, 9, 2, N=16)
    i, j = np.ogrid[2:18, 2:18]
    np.testing.assert_array_equal(out, np.where((j < 13) & (j <= i) & (i < 9), x.reshape(16, 16), -1))
    loops = kernel.asm["loops"]
    sums, comparisons = (len(re.findall(rf"= arith.{op} .* : vector", loops)) for op in ("addi", "cmpi sle,"))
    assert sums == comparisons > 0
