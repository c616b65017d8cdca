"""Loops down columns whose quotients and masks are numbers for all rows have a version that relies on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here
from tilewright.backends.cpu.version_loops import version_loops
from tilewright.dialects.cpu import Assume
from tilewright.ir.parser import parse_module

CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
ROWS, PITCH = 8, 4096


@tw.jit
def sums(x, out, first, n, channels, X: tl.constexpr, R: tl.constexpr):
    """Sums over the rows of pixels, which are so many channels, some of `PITCH` elements apart."""
    j = first + tl.program_id(0) * X + tl.arange(0, X)[None, :]
    r = tl.arange(0, R)[:, None]
    place = j % channels + j // channels * channels
    tile = tl.load(x + place + r * 4096, (r < R) & (j < n), other=0)
    tl.store(out + j, tl.sum(tile, 0)[None, :], j < n)


@tw.jit
def sums_of_two(x, out, first, n, channels, X: tl.constexpr, R: tl.constexpr):
    """The same sums over two axes, whose tile is reshaped."""
    j = first + tl.program_id(0) * X + tl.arange(0, X)[None, None, :]
    r, s = tl.arange(0, R // 2)[:, None, None], tl.arange(0, 2)[None, :, None]
    place = j % channels + j // channels * channels
    tile = tl.load(x + place + (r * 2 + s) * 4096, j < n, other=0)
    tl.store(out + j, tl.sum(tl.reshape(tile, [R, X]), 0)[None, None, :], j < n)


@tw.jit
def by_rows(x, out, first, n, channels, X: tl.constexpr, R: tl.constexpr):
    """Each row has quotients of its own."""
    j, r = tl.arange(0, X)[None, :], tl.arange(0, R)[:, None]
    tl.store(out + j, tl.sum(tl.load(x + (j + r * 3) // channels * 2 + r * 4096, (j + r) < n, other=0), 0)[None, :])


@tw.jit
def loaded(x, out, first, n, channels, X: tl.constexpr, R: tl.constexpr):
    """Quotients of numbers that are loaded."""
    j, r = tl.arange(0, X)[None, :], tl.arange(0, R)[:, None]
    place = tl.load(out + j).to(tl.int32) // channels
    tl.store(out + j, tl.sum(tl.load(x + place + r * 4096, j < n, other=0), 0)[None, :])


@tw.jit
def masked(x, out, first, n, channels, X: tl.constexpr, R: tl.constexpr):
    """There are masks alone."""
    j, r = tl.arange(0, X)[None, :], tl.arange(0, R)[:, None]
    tl.store(out + j, tl.sum(tl.load(x + j + r * 4096, j < n, other=0), 0)[None, :], j < n)


def expected(x: np.ndarray, first: int, n: int) -> np.ndarray:
    """The sums: elements lie side by side, however many channels there are."""
    out = np.full(PITCH, -5, np.float32)
    out[first:n] = x.reshape(ROWS, PITCH)[:, first:n].sum(0)
    return out


@pytest.mark.parametrize("kernel", [sums, sums_of_two], ids=lambda k: k.__name__)
@pytest.mark.parametrize(
    ("first", "n", "channels"),
    [
        pytest.param(0, 512, 64, id="pixels of a block"),
        pytest.param(0, 512, 256, id="pixels of several blocks"),
        pytest.param(0, 500, 64, id="a block that ends earlier"),
        pytest.param(32, 512, 64, id="blocks across pixels"),
        pytest.param(0, 512, 100, id="pixels that are no blocks"),
        pytest.param(0, 512, 24, id="pixels shorter than a block"),
        pytest.param(7, 333, 33, id="anything"),
        pytest.param(0, 512, 1, id="one channel"),
    ],
)
@pytest.mark.parametrize("cpu", CPUS)
def test_sums_down_columns(
    kernel: Any, first: int, n: int, channels: int, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.random.default_rng(n).integers(-9, 9, ROWS * PITCH).astype(np.float32)
    x[5], x[PITCH + 65], x[2 * PITCH + 66] = np.nan, np.inf, -np.inf
    out = np.full(PITCH, -5, np.float32)
    kernel[(tw.cdiv(n - first, 64),)](x, out, first, n, channels, X=64, R=ROWS)
    np.testing.assert_array_equal(out, expected(x, first, n))


def test_numbers_below_zero_are_divided_one_by_one() -> None:
    """The quotients of -64 … -1 by 64 are -1 and then 0, though they begin at a multiple of 64."""
    x = np.arange((ROWS + 1) * PITCH, dtype=np.float32)
    out = np.full(PITCH, -5, np.float32)
    sums[(1,)](x[PITCH:], out[64:], -64, 64, 64, X=64, R=ROWS)
    np.testing.assert_array_equal(out[:64], x.reshape(ROWS + 1, PITCH)[:-1, -64:].sum(0))
    assert (out[64:] == -5).all()


def test_what_lies_side_by_side_is_loaded_so() -> None:
    x = np.zeros(ROWS * PITCH, np.float32)
    text = sums_of_two.warmup(x, x, 0, 512, 64, X=64, R=ROWS, grid=(1,)).asm["loops"]
    loops = text.split("scf.for")[1:]
    assert sum("vector.gather" in loop for loop in loops) == 1, "in the general version"
    assert "vector.load" in text.split("scf.for")[1].partition("scf.yield")[0]


@pytest.mark.parametrize(
    ("kernel", "count"),
    [(sums, 3), (sums_of_two, 3), (by_rows, 0), (loaded, 0), (masked, 0)],
    ids=lambda k: getattr(k, "__name__", ""),
)
def test_only_numbers_for_all_rows_are_relied_on(kernel: Any, count: int) -> None:
    x = np.zeros(ROWS * PITCH, np.float32)
    module = parse_module(kernel.warmup(x, x, 0, 512, 64, X=64, R=ROWS, grid=(1,)).asm["ttcir"])
    version_loops(module)
    down = [op for op in module.ops_of(Assume) if op.parent is not None and op.parent.mode == "columns"]
    assert len(down) == count
