"""A scalar store between a load of a tile and its uses: the tile keeps the values it had."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def centre(x_ptr, total_ptr, out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns)
    total = tl.sum(x)
    tl.store(total_ptr, total)
    square = tl.sum(x * x)
    tl.store(total_ptr + 1, square)
    tl.store(out_ptr + columns, (x - total) * square)


@pytest.mark.parametrize("overlapping", [False, True])
def test_tile_survives_scalar_stores(overlapping):
    x = np.arange(64, dtype=np.float32)
    before = x.astype(np.float64)
    totals = x[5:7] if overlapping else np.zeros(2, np.float32)
    out = np.zeros(64, np.float32)
    centre[(1,)](x, totals, out, BLOCK=64)
    total, square = before.sum(), (before**2).sum()
    np.testing.assert_array_equal(totals, [total, square])
    np.testing.assert_allclose(out, (before - total) * square, rtol=1e-6)
