"""Kernels that ways of running once disagreed about, cut down from generated ones (tests/fuzz)."""

from __future__ import annotations

import numpy as np
from agreement import agree, jit

import tilewright.language as tl


@jit
def halves_of_constants(out):
    halves = tl.cat(tl.full([1, 8], 100, tl.int32), tl.full([1, 8], 2, tl.int32), dim=1)
    tl.store(out + tl.arange(0, 16)[None, :], halves)


def test_each_chunk_of_lanes_has_its_half() -> None:
    """With vectors of 8 lanes each chunk lies in one half, which is a number known for this chunk only."""
    found = agree(halves_of_constants, np.zeros(16, np.int32))[0]
    np.testing.assert_array_equal(found, [100] * 8 + [2] * 8)


@jit
def both_or(a, c, b, d):
    return a | b, tl.minimum(c, d)


@jit
def reduced_where_either(x, out):
    pairs = tl.reshape(tl.arange(0, 4), [2, 2])
    mask = tl.interleave(tl.load(x + tl.arange(0, 1)), tl.full([1], 1, tl.int32)) != 0
    tl.store(out + tl.arange(0, 2), tl.reduce((pairs, pairs + 1), 1, both_or)[1], mask=mask)


def test_a_mask_of_rows_that_is_chosen_from_two() -> None:
    for first in (0, 1):
        found = agree(reduced_where_either, np.array([first], np.int32), np.zeros(2, np.int32))[1]
        np.testing.assert_array_equal(found, [first, 3])


@jit
def remainder_of_rows(x, out, n):
    rows = tl.arange(0, 2)[:, None]
    sums = tl.sum(tl.reshape(tl.arange(0, 8), [2, 4, 1]), axis=1)
    tl.store(out + rows, tl.load(x + rows) % n + sums)


def test_a_remainder_in_front_of_a_reduction() -> None:
    """The remainder of floats has a loop of its own, in a section in front of the reduction's loop."""
    x = np.array([7.5, -7.5], np.float32)
    found = agree(remainder_of_rows, x, np.zeros(2, np.float32), 5)[1]
    np.testing.assert_array_equal(found, [2.5 + 6, -2.5 + 22])
