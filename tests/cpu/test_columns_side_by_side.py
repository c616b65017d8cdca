"""How many vectors of columns are reduced side by side: as many as registers hold, of what is cheap to compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here
from tilewright.backends.cpu.choose_widths import choose_widths
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Nest
from tilewright.ir.parser import parse_module

ROWS, COLUMNS = 16, 256


def sums(x, out, rows, R: tl.constexpr, X: tl.constexpr):
    r, j = tl.arange(0, R)[:, None], tl.arange(0, X)
    tile = tl.load(x + r * X + j[None, :], r < rows, other=0)
    tl.store(out + j, tl.sum(tile, 0))


def maxima_and_sums(x, out, rows, R: tl.constexpr, X: tl.constexpr):
    r, j = tl.arange(0, R)[:, None], tl.arange(0, X)
    tile = tl.load(x + r * X + j[None, :], r < rows, other=0)
    tl.store(out + j, tl.sum(tile, 0) + tl.max(tile, 0))


def places(x, out, rows, R: tl.constexpr, X: tl.constexpr):
    r, j = tl.arange(0, R)[:, None], tl.arange(0, X)
    tile = tl.load(x + r * X + j[None, :], r < rows, other=0)
    tl.store(out + j, tl.argmax(tile, 0))


def sums_of_powers(x, out, rows, R: tl.constexpr, X: tl.constexpr):
    """Long functions take the registers that more columns would need."""
    r, j = tl.arange(0, R)[:, None], tl.arange(0, X)
    tile = tl.load(x + r * X + j[None, :], r < rows, other=0)
    tl.store(out + j, tl.sum(tl.exp(tile) + tl.sin(tile) + tl.log(tile + 99) + tl.exp2(-tile) + tl.cos(tile), 0))


def running(x, out, rows, R: tl.constexpr, X: tl.constexpr):
    r, j = tl.arange(0, R)[:, None], tl.arange(0, X)
    tile = tl.load(x + r * X + j[None, :], r < rows, other=0)
    total = tl.cumsum(tile, 0)
    tl.store(out + j, tl.sum(tl.where(r == rows - 1, total, 0), 0))


@pytest.mark.parametrize(
    ("kernel", "level", "vectors"),
    [
        pytest.param(sums, "x86-64-v4", 8, id="sums"),
        pytest.param(sums, "x86-64-v3", 4, id="sums in half as many registers"),
        pytest.param(places, "x86-64-v4", 4, id="two results"),
        pytest.param(sums_of_powers, "x86-64-v4", 2, id="long functions"),
        pytest.param(running, "x86-64-v4", 2, id="running sums"),
    ],
)
def test_columns_are_as_many_vectors_as_registers_hold(
    kernel: Callable[..., None], level: str, vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", level)
    x, out = np.zeros((ROWS, COLUMNS), np.float32), np.zeros(COLUMNS, np.float32)
    module = parse_module(tw.jit(kernel).warmup(x, out, ROWS, R=ROWS, X=COLUMNS, grid=(1,)).asm["ttcir"])
    target = host_target(level)
    choose_widths(module, target)
    nests = [nest for nest in module.ops_of(Nest) if nest.mode == "columns"]
    assert {nest.lanes for nest in nests[:1]} == {vectors * target.vector_bits // 32}


@pytest.mark.parametrize("kernel", [sums, maxima_and_sums, places, sums_of_powers, running], ids=lambda k: k.__name__)
@pytest.mark.parametrize("columns", [256, 64, 8])
@pytest.mark.parametrize("level", run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"))
def test_columns_side_by_side_are_what_they_are_one_by_one(
    kernel: Callable[..., None], columns: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(columns)
    x = rng.integers(-9, 9, (ROWS, columns)).astype(np.float32)
    monkeypatch.setenv("TILEWRIGHT_CPU", level)
    found = []
    for vectors in (8, 1):
        monkeypatch.setattr("tilewright.backends.cpu.choose_widths.MIN_COLUMNS", 1)
        monkeypatch.setattr("tilewright.backends.cpu.choose_widths.MAX_COLUMNS", vectors)
        monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
        out = np.full(columns, -5, np.float32)
        tw.jit(kernel)[(1,)](x, out, ROWS - 3, R=ROWS, X=columns)
        found.append(out)
    np.testing.assert_array_equal(*found)
