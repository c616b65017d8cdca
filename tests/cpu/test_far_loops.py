"""Loops with bounds at the ends of the numbers: the counter plus a step may be beyond, as may be their distance."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

HALF = 2**31


@tw.jit
def count_up(out, low, high, step):
    turns = 0
    for i in range(low, high, step):
        tl.store(out + turns, i)
        turns += 1  # noqa: SIM113 - a kernel has no `enumerate`


@tw.jit
def count_down(out, low, high, step: tl.constexpr):
    turns = 0
    for i in range(high, low, -step):
        tl.store(out + turns, i)
        turns += 1  # noqa: SIM113 - a kernel has no `enumerate`


@tw.jit
def count_in_groups(out, low, high, step):
    turns = 0
    for i in tl.range(low, high, step, loop_unroll_factor=2):
        tl.store(out + turns, i)
        turns += 1  # noqa: SIM113 - a kernel has no `enumerate`


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        (HALF - 5, -HALF + 4, 2),
        (0, HALF - 1, HALF // 2),
        (-HALF // 2, HALF // 2 - 1, HALF // 2),
        (HALF - 9, HALF - 1, 4),
    ],
)
def test_each_counter_is_seen_once(low: int, high: int, step: int) -> None:
    up, down = list(range(low, high, step)), list(range(high, low, -step))
    out = np.zeros((3, 8), np.int64)
    count_up[(1,)](out[0], low, high, step)
    count_down[(1,)](out[1], low, high, step)
    count_in_groups[(1,)](out[2], low, high, step)
    assert out.tolist() == [numbers + [0] * (8 - len(numbers)) for numbers in (up, down, up)]
