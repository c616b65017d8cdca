"""Kernels that read a row twice ask for the next program's row meanwhile, if they can tell where it is."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

COLUMNS = 256


@tw.jit
def centre(x_ptr, scale_ptr, out_ptr, stride, MOVES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    start = row * stride + 1 if MOVES == "by a stride" else 0 if MOVES == "not" else tl.load(scale_ptr).to(tl.int32)
    x = tl.load(x_ptr + start + column)
    spread = tl.sum((x - tl.sum(x) / BLOCK) * (x - 1))
    tl.store(out_ptr + row * BLOCK + column, x * spread * tl.load(scale_ptr + column))


@pytest.mark.parametrize(("moves", "prefetches"), [("by a stride", True), ("not", False), ("by what is loaded", False)])
def test_prefetch_of_rows_that_move(moves, prefetches):
    rng = np.random.default_rng(1)
    x, scale = rng.standard_normal((2, 5, 300)).astype(np.float32)
    scale[0, 0] = 0.0
    out = np.zeros((4, COLUMNS), np.float32)
    kernel = centre[(4,)](x, scale, out, 300, MOVES=moves, BLOCK=COLUMNS)
    assert ("llvm.prefetch" in kernel.asm["llir"]) is prefetches
    for row in range(4):
        line = x.ravel()[300 * row * (moves == "by a stride") + (moves == "by a stride") :][:COLUMNS].astype(np.float64)
        spread = ((line - line.mean()) * (line - 1)).sum()
        np.testing.assert_allclose(out[row], line * spread * scale[0, :COLUMNS], rtol=1e-4, atol=1e-4)
