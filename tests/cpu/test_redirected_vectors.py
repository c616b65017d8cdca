"""Guarded stores whose offsets are data as well, and so are not known to be a line."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on


@tw.jit
def places_kept(x, y, out, columns_of, bound, width, B: tl.constexpr):
    """The columns, from which later loads compute their addresses, are kept in a buffer across the first store."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    column = i - i // width * width
    tl.store(out + i, tl.load(y + i, column >= bound, 0.0))
    tl.store(columns_of + i, tl.load(x + column))


@pytest.mark.parametrize("level", ["x86-64-v2", None])
@pytest.mark.parametrize("apart", [-40, -3, 0, 1, 17, 200])
@pytest.mark.parametrize("width", [1, 20, 33, 100])
@code_on("znver5")
def test_the_output_may_overlap_the_input(apart: int, width: int, level: str | None) -> None:
    memory, x = np.arange(500, dtype=np.float64), np.arange(1000, 1100, dtype=np.float64)
    expected, columns_of = memory.copy(), np.zeros(64)
    column = np.arange(64) % width
    expected[100 + apart : 164 + apart] = np.where(column >= 10, memory[100:164], 0)
    with tw.knobs.tilewright.scope():
        if level is not None:
            tw.knobs.tilewright.cpu = level
        places_kept[(1,)](x, memory[100:], memory[100 + apart :], columns_of, 10, width, B=64)
    np.testing.assert_array_equal(memory, expected)
    np.testing.assert_array_equal(columns_of, x[column])


@tw.jit
def sums_spread(x, out, step, n, m, Y: tl.constexpr, X: tl.constexpr, R: tl.constexpr):
    """Wide offsets, for the loop of a sum and for that of the store behind it, are kept in a buffer of one row."""
    y = tl.program_id(1) * Y + tl.arange(0, Y)[:, None, None]
    i = tl.program_id(0) * X + tl.arange(0, X)[None, :, None]
    r = tl.arange(0, R)[None, None, :]
    inside = (y < n) & (i < m)
    offset = r + 12 * i + 12 * step.to(tl.int64) * y
    total = tl.sum(tl.load(x + offset, inside & (r < 12), 0.0), 2)[:, :, None]
    tl.store(out + offset, tl.broadcast_to(total, [Y, X, R]), inside & (r < 12))


@pytest.mark.parametrize("apart", [-24, -12, 0, 12, 400])
@pytest.mark.parametrize(("rows", "columns"), [(2, 5), (3, 8), (1, 1), (4, 7)])
@code_on("x86-64-v3")
def test_offsets_in_a_buffer_of_one_row_belong_to_that_row(rows: int, columns: int, apart: int) -> None:
    memory = np.arange(1000, dtype=np.float64)
    count, expected = rows * columns * 12, memory.copy()
    sums = memory[100 : 100 + count].reshape(rows, columns, 12).sum(2, keepdims=True)
    expected[100 + apart : 100 + apart + count] = np.broadcast_to(sums, (rows, columns, 12)).ravel()
    sums_spread[(1, 1)](memory[100:], memory[100 + apart :], columns, rows, columns, Y=4, X=8, R=16)
    np.testing.assert_array_equal(memory, expected)
