"""Kernels that read a row twice ask for the next program's row meanwhile, if they can tell where it is."""

import numpy as np
import pytest
from pass_kernels import loops_of

import tilewright as tw
import tilewright.language as tl
from tilewright.dialects.vector import Prefetch
from tilewright.transforms.matching import integer_of

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


@tw.jit
def tiles(x_ptr, out_ptr, stride, ALONG: tl.constexpr, DIVIDED: tl.constexpr, B: tl.constexpr):
    r, c = tl.program_id(1 - ALONG), tl.program_id(ALONG)
    if DIVIDED:
        r, c = c // (128 // B), c % (128 // B)
    r, c = r * B + tl.arange(0, B), c * B + tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * stride + c[None, :])
    tl.store(out_ptr + r[:, None] * stride + c[None, :], x + 1)


def distances(kernel, arguments, **constants):
    """How far ahead the loops for AVX2 ask for memory, by the ops that give these numbers of bytes."""
    module = loops_of(kernel, arguments, "x86-64-v3", **constants)
    return [op.offset for op in module.walk() if isinstance(op, Prefetch)]


@pytest.mark.parametrize(("along", "divided"), [(0, False), (1, False), (0, True)])
@pytest.mark.parametrize("block", [16, 32])
def test_prefetch_of_tiles_of_neighbours(along, divided, block):
    """The next tile is the one to the right, whichever axis counts it: each line of its rows is asked for."""
    x, out = np.arange(128 * 128, dtype=np.float32).reshape(128, 128), np.zeros((128, 128), np.float32)
    options = {"ALONG": along, "DIVIDED": divided, "B": block}
    found = distances(tiles, (x, out, 128), **options)
    assert [integer_of(distance) for distance in found] == [4 * block] * (4 * block // 64)
    side = 128 // block
    grid = (side * side,) if divided else (side, side)
    tiles[grid](x, out, 128, **options)
    np.testing.assert_array_equal(out, x + 1)


@tw.jit
def columns(x_ptr, out_ptr, stride, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    tl.store(out_ptr + r[:, None] * B + c[None, :], tl.load(x_ptr + r[:, None] * stride + c[None, :]))


def test_prefetch_of_tiles_below():
    """Programs are B rows apart, which only the launch knows in bytes."""
    x = np.zeros((64, 64), np.float32)
    found = distances(columns, (x, x, 64), B=32)
    assert found
    assert all(distance.op.name == "arith.muli" for distance in found)
