"""Stores to parts of the same rows, and loads from others: in the gaps of each other, or over one another."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def rotated(x, first, second, rows, ROW: tl.constexpr, HALF: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Both halves of each row of x, the second one with its sign changed, to two places."""
    row, column = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (row < rows) & (column < HALF)
    a = tl.load(x + row * ROW + column, inside)
    b = tl.load(x + HALF + row * ROW + column, inside)
    tl.store(first + row * ROW + column, -b, inside)
    tl.store(second + row * ROW + column, a, inside)


@tw.jit
def moved(source, target, rows, ROW: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    row, column = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(target + row * ROW + column, tl.load(source + row * ROW + column, row < rows) + 1, row < rows)


@pytest.mark.parametrize("row", [32, 48, 50])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_halves_of_one_array(row: int, *, swapped: bool, in_place: bool, dtype: type) -> None:
    rows, half = 13, row // 2
    x = (np.arange(rows * row) % 100).astype(dtype).reshape(rows, row)
    wanted = np.concatenate((-x[:, half:], x[:, :half]), 1)
    if swapped:
        wanted = np.roll(wanted, half, 1)
    out = x if in_place else np.zeros_like(x)
    places = (out.reshape(-1), out.reshape(-1)[half:])
    rotated[(tw.cdiv(rows, 4),)](x.reshape(-1), *places[:: -1 if swapped else 1], rows, row, half, R=4, C=32)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("distance", [-40, -24, -17, -16, -15, -8, 0, 8, 15, 16, 17, 24, 33, 40, 55])
def test_any_distance(distance: int) -> None:
    """Rows of 24 of which 16 are read, and written some elements further on: only at some distances do they miss."""
    memory = np.arange(1000, dtype=np.float32)
    wanted = memory.copy()
    at = 100 + 24 * np.arange(8)[:, None] + np.arange(16)
    wanted[at + distance] = memory[at] + 1
    moved[(1,)](memory[100:], memory[100 + distance :], 8, ROW=24, R=8, C=16)
    np.testing.assert_array_equal(memory, wanted)
