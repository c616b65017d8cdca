"""Two stores become one where one of them stores each element, no two lanes meet, and nothing looks in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here

N, B = 13, 16
CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")


def filled(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    inside, fill = i < n, tl.load(x + i) > 0
    tl.store(out + i, tl.load(x + i, inside & ~fill), inside & ~fill)
    tl.store(out + i, 7, inside & fill)


def other_order(x, out, n, B: tl.constexpr):
    """The first store fills; the parts of the masks stand on the other sides."""
    i = tl.arange(0, B)
    inside, number = i < n, tl.load(x + i)
    tl.store(out + i, i, (number == 2) & inside)
    tl.store(out + i, 2 * i, (number != 2) & inside)


def everywhere(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    low = tl.load(x + i) < n
    tl.store(out + i, -i, low)
    tl.store(out + i, i, ~low)


def of_floats(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    high = tl.load(x + i).to(tl.float32) > 1.5
    tl.store(out + i, 1, high)
    tl.store(out + i, 2, ~high)


def in_rows(x, out, n, B: tl.constexpr):
    row, column = tl.arange(0, 4)[:, None], tl.arange(0, 4)[None, :]
    i = 4 * row + column
    fill = tl.load(x + i) > 0
    tl.store(out + i, tl.load(x + i), (column < n - 10) & ~fill)
    tl.store(out + i, 9, (column < n - 10) & fill)


def with_nan(x, out, n, B: tl.constexpr):
    """Neither `<` nor `>=` holds of NaN, so no store touches that element."""
    i = tl.arange(0, B)
    number = tl.load(x + i).to(tl.float32)
    number = tl.where(i == 3, float("nan"), number)
    tl.store(out + i, 1, number < 1.5)
    tl.store(out + i, 2, number >= 1.5)


def meeting_lanes(x, out, n, B: tl.constexpr):
    """Elements 2j and 2j + 1 go to one place: the second store has the last word."""
    i = tl.arange(0, B)
    late = tl.load(x + i) > 0
    tl.store(out + i // 2, 100 + i, late)
    tl.store(out + i // 2, 200 + i, ~late)


def meeting_stores(x, out, n, B: tl.constexpr):
    """Within each store all lanes are apart, but each place has a lane of both."""
    i = tl.arange(0, B)
    tl.store(out + i % 8, 100 + i, i >= 8)
    tl.store(out + i % 8, 200 + i, i < 8)


def at_run_time_distance(x, out, n, B: tl.constexpr):
    """The distance of the lanes turns out to be 0."""
    i = tl.arange(0, B)
    late = tl.load(x + i) > 0
    tl.store(out + i * (n - 13), 1, late)
    tl.store(out + i * (n - 13), 2, ~late)


def one_lane_last(x, out, n, B: tl.constexpr):
    """All lanes of the first store and the only one of the second have one address."""
    i = tl.arange(0, B)
    tl.store(out + i * (n - 13), 100 + i, i >= n - 12)
    tl.store(out + i * (n - 13), 200 + i, i < n - 12)


def read_between(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    low = i < n
    tl.store(out + i, 5, low)
    tl.store(out + i, 1 + tl.load(out + (i ^ 15)), ~low)


def overlapping(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, 5, i < n)
    tl.store(out + i, 6, i >= n - 3)


def different_parts(x, out, n, B: tl.constexpr):
    """One is for lanes below n, the other one for those from 3 on: elements 0 to 2, and 13 to 15, have one store."""
    i = tl.arange(0, B)
    fill = tl.load(x + i) > 0
    tl.store(out + i, 5, (i < n) & fill)
    tl.store(out + i, 6, (i >= 3) & ~fill)


def different_places(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    fill = tl.load(x + i) > 0
    tl.store(out + i, 5, fill)
    tl.store(out + 15 - i, 6, ~fill)


def past_the_caches(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    fill = tl.load(x + i) > 0
    tl.store(out + i, 5, fill)
    tl.store(out + i, 6, ~fill, cache_modifier=".cs")


MERGED = (filled, other_order, everywhere, of_floats, in_rows)
KEPT = (
    *(with_nan, meeting_lanes, meeting_stores, at_run_time_distance, one_lane_last, read_between),
    *(overlapping, different_parts, different_places, past_the_caches),
)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(3).integers(-2, 4, B).astype(np.int32), np.full(B, 77, np.int32)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("function", [*MERGED, *KEPT])
def test_elements_are_what_the_second_store_left(function: Callable[..., Any], cpu: str) -> None:
    (x, found), (_, expected) = arrays(), arrays()
    tw.jit(interpret=True)(function)[(1,)](x, expected, N, B=B)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        kernel = tw.jit(function)[(1,)](x, found, N, B=B)
    np.testing.assert_array_equal(found, expected)
    stores = kernel.asm["ttcir"].count("tt.store") + kernel.asm["ttcir"].count('"cpu.store"')
    assert (stores == 1) == (function in MERGED), kernel.asm["ttcir"]
