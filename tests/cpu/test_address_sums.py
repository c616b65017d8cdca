"""Addresses whose distances are known share all but those, and none is another one than the program's."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here

CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
ROWS, COLUMNS, FAR = 16, 64, (1 << 31) - 8


@tw.jit
def neighbours(x, out, first, rows, R: tl.constexpr, C: tl.constexpr):
    """Sums of three pixels of C channels each, some of which lie in front of the array or behind it."""
    r, j = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    before = tl.load(x + (-64 + j + r * 64 + first * 64), (r >= 1) & (r < rows), other=0)
    here = tl.load(x + (j + r * 64 + first * 64), r < rows, other=0)
    behind = tl.load(x + (64 + j + r * 64 + first * 64), r + 1 < rows, other=0)
    tl.store(out + (j + r * 64), before + here + behind, r < rows)


@tw.jit
def far(x, out, start, R: tl.constexpr, C: tl.constexpr):
    """No sum overflows in the order of the program; all but the constant would of 32 bits."""
    r, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out + (j + r * 64), tl.load(x + (-2147483640 + j + r * 64 + start)))


@tw.jit
def narrow(x, out, R: tl.constexpr, C: tl.constexpr):
    """Sums of 16 bits wrap: rows from 8 on lie in front of the others."""
    r, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    row = (r * 64).to(tl.int16) + tl.full([R, 1], 32256, tl.int16)
    tl.store(out + (j + r * 64), tl.load(x + row + j))


@tw.jit
def products(x, out, rows, R: tl.constexpr, C: tl.constexpr):
    """Sums under a product or a remainder are no sums of the address."""
    r, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out + (j + r * 64), tl.load(x + ((r + 3) % rows) * 64 + j) + tl.load(x + (r + 3 & 7) * 64 + j))


def pooled(x: np.ndarray) -> np.ndarray:
    around = np.zeros((ROWS + 2, COLUMNS), np.float32)
    around[1:-1] = x
    return around[:-2] + around[1:-1] + around[2:]


def pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(-99, 99, (number, COLUMNS)).astype(np.float32)


@pytest.mark.parametrize("rows", [4, 16, 32])
@pytest.mark.parametrize("cpu", CPUS)
def test_pixels_side_by_side(cpu: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = pixels(ROWS)
    out = np.full((ROWS + 1, COLUMNS), -5, np.float32)
    neighbours[(tw.cdiv(ROWS, rows),)](x, out, 0, ROWS, R=rows, C=COLUMNS)
    np.testing.assert_array_equal(out[:-1], pooled(x))
    assert (out[-1] == -5).all()


@pytest.mark.parametrize("cpu", CPUS)
def test_sums_are_those_of_the_program(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x, out = pixels(ROWS), np.zeros((ROWS, COLUMNS), np.float32)
    far[(1,)](x, out, FAR, R=ROWS, C=COLUMNS)
    np.testing.assert_array_equal(out, x)
    products[(1,)](x, out, ROWS, R=ROWS, C=COLUMNS)
    rows = np.arange(ROWS) + 3
    np.testing.assert_array_equal(out, x[rows % ROWS] + x[rows & 7])


@pytest.mark.parametrize("cpu", CPUS)
def test_narrow_sums_wrap(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    memory, out = np.zeros((1024, COLUMNS), np.float32), np.zeros((ROWS, COLUMNS), np.float32)
    memory[:] = np.arange(memory.size).reshape(memory.shape)
    narrow[(1,)](memory[512:], out, R=ROWS, C=COLUMNS)
    row = (np.arange(ROWS) * 64 + 32256).astype(np.int16).astype(int) // 64
    np.testing.assert_array_equal(out, memory[512 + row])


def test_all_but_the_known_distance_is_shared() -> None:
    x = pixels(ROWS)
    text: str = neighbours.warmup(x, x, 0, ROWS, R=4, C=COLUMNS, grid=(4,)).asm["loops"]
    loop = text[text.index("scf.for") :].partition("scf.if")[0]
    assert loop.count("arith.extsi") == 2, "one for the row, one for the sum of two terms without a known number"
