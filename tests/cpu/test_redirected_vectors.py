"""Guarded stores whose offsets are data as well, and so are not known to be a line."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


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
