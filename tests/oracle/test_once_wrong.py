"""Kernels that ways of running once disagreed about, cut down from generated ones (tests/fuzz)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from agreement import agree, jit

import tilewright as tw
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


@jit
def two_axes(out):
    places = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)
    tl.store(out + places, tl.argmax(tl.full([1, 16, 16], 5, tl.int32), 0))
    tl.store(out + 256 + places, tl.argmax(tl.reshape(tl.arange(0, 512), [16, 2, 16]), 1))


def test_reductions_along_different_axes_have_loops_of_their_own() -> None:
    """The results of both have one shape."""
    found = agree(two_axes, np.full(512, 9, np.int32))[0]
    np.testing.assert_array_equal(found, [0] * 256 + [1] * 256)


@jit
def product_of_columns(x, out, KIND: tl.constexpr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    a, b = tl.load(x + i * 16 + j), tl.load(x + i + j * 16)
    scaled = a + tl.sum(a, 0)[None, :]
    if KIND == "left":
        c = tl.dot(scaled, b)
    elif KIND == "right":
        c = tl.dot(b + 1, scaled)
    elif KIND == "transposed":
        c = tl.dot(b, scaled.T)
    elif KIND == "both":
        c = tl.dot(scaled, b - tl.max(b, 0)[None, :])
    else:
        c = tl.dot(a + 1, b, scaled)
    tl.store(out + i * 16 + j, c)


@pytest.mark.parametrize("kind", ["left", "right", "transposed", "both", "added"])
def test_products_of_what_is_reduced_along_columns(kind: str) -> None:
    """Writing an operand ends the loops of the reduction, whose result it and the other operands still need."""
    x = np.arange(256).reshape(16, 16) % 7 - np.arange(16, dtype=np.float32) % 3
    agree(product_of_columns, x.astype(np.float32), np.zeros((16, 16), np.float32), KIND=kind)


@jit
def windows_in_place(x, out, step, KIND: tl.constexpr):
    x += 400
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    if KIND == "rows":
        places = x + i * step + j
    elif KIND == "columns":
        places = x + i + j * step
    elif KIND == "known":
        places = x + i * 8 + j
    else:
        places = x + i * 16 + j * 0
    old = tl.load(places)
    tl.store(places, -1.0)
    if KIND != "known":
        tl.store(out + i * 16 + j, old)
    else:
        tl.store(places, old * 2, mask=j > 3)


STEPS = [("rows", -3), ("rows", 15), ("rows", 16), ("columns", 1), ("known", 0), ("one column", 0)]


@pytest.mark.parametrize(("kind", "step"), STEPS)
def test_windows_that_overlap_are_loaded_before_they_are_stored(kind: str, step: int) -> None:
    """Element by element, an element would be loaded where another one has been stored."""
    x = np.arange(1000, dtype=np.float32)
    agree(windows_in_place, x, np.zeros((16, 16), np.float32), step, KIND=kind)


@jit
def composed(a, b, c, d):
    return a * d + c, b * d


@jit
def masked_and_whole(x, out, n):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    places = x + i * 16 + j
    whole, masked = tl.load(places), tl.load(places, mask=j < n + 5, other=7)
    tl.store(out + i * 16 + j, tl.associative_scan((whole, masked), 0, composed)[0])


@pytest.mark.parametrize("n", [-9, 3, 20])
def test_one_row_is_loaded_with_a_mask_and_without_in_a_scan(n: int) -> None:
    """The address changes with each step of the scan, the mask does not."""
    agree(masked_and_whole, np.arange(128, dtype=np.int32), np.zeros(128, np.int32), n)


def chained(x, out, s):
    value = 0
    if tl.load(x) <= tl.load(x + 1) < (s if tl.load(x + 3) > 0 else tl.load(x + 2)):
        value = 1
    elif not (1 <= tl.load(x) < tl.load(x + 1)):
        value = 2
    tl.store(out, value)


def test_a_chained_comparison_with_a_choice_in_it() -> None:
    """The choice's branch follows the one of the first comparison in bytecode."""
    kernels = [tw.jit(chained, frontend=frontend) for frontend in ("ast", "bytecode")]
    for a, b, d in product((0, 1), repeat=3):
        c, s = 2 - a, 2 * b
        expected = 1 if a <= b < (s if d > 0 else c) else 0 if 1 <= a < b else 2
        for kernel in kernels:
            found = agree(kernel, np.array([a, b, c, d], np.int32), np.zeros(1, np.int32), s, eager=False)[1]
            assert found[0] == expected, (a, b, c, d, s)


@jit
def halves_as_brain_halves(out):
    places = tl.arange(0, 64)
    tl.store(out + places, tl.cast(places.to(tl.float16), tl.bfloat16, bitcast=True) != 0)


@pytest.mark.parametrize("capability", ["80", "90"])
def test_bits_of_a_half_as_bfloat16_on_gpus(capability: str) -> None:
    """LLVM ends the process when it sees where the bits come from."""
    out = np.full(64, 7, np.int32)
    with tw.simulate(f"cuda:{capability}"):
        halves_as_brain_halves[(1,)](out)
    np.testing.assert_array_equal(out, [0] + [1] * 63)
