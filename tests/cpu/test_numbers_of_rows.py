"""The numbers that a row has one of change behind all that reads them, also where vectors along the row do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here
from tilewright.runtime.interpreted import InterpretedFunction

ROWS, COLUMNS = 8, 16
CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")


def exchanged(x, z, p, out, n, R: tl.constexpr, C: tl.constexpr):
    """Both carried columns change in each turn, in which a tile is multiplied by what one of them was."""
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    u, v = tl.load(z + i), tl.load(z + i)
    for k in range(n):
        before = u
        u = v + 1
        v = before * 2
        tl.store(out + i * C + j, tl.load(x + k + i * C + j) * before)
    tl.store(out + R * C + i, u)
    tl.store(out + R * C + R + i, v)


def filled(x, z, p, out, n, R: tl.constexpr, C: tl.constexpr):
    """A column is overwritten before a tile is computed from it."""
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    number = tl.load(z + i)
    tl.store(p + i, 5.0)
    tl.store(out + i * C + j, number + tl.load(x + i * C + j))


def with_sums(x, z, p, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    number, tile = tl.load(z + i), tl.load(x + i * C + j)
    total = tl.sum(tile, 1)[:, None]
    tl.store(p + i, total)
    tl.store(out + i * C + j, number + tile - total)
    tl.store(out + R * C + i, number - total)


def without_columns(x, z, p, out, n, R: tl.constexpr, C: tl.constexpr):
    """A vector of row sums is stored where the numbers come from that the next store needs."""
    i, j = tl.arange(0, R), tl.arange(0, C)
    tile = tl.load(x + i[:, None] * C + j[None, :])
    total, number = tl.sum(tile, 1), tl.load(z + i)
    tl.store(p + i, total)
    tl.store(out + R * C + i, number + total)
    tl.store(out + i[:, None] * C + j[None, :], tile + total[:, None])


@pytest.mark.parametrize("kernel", [exchanged, filled, with_sums, without_columns])
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("in_place", [True, False])
def test_numbers_change_behind_what_reads_them(
    kernel: Callable[..., Any], cpu: str, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.random.default_rng(5).integers(-9, 9, ROWS * COLUMNS + 4).astype(np.float32)
    results = []
    for run in (tw.jit(kernel), InterpretedFunction(kernel)):
        z, out = np.arange(ROWS, dtype=np.float32), np.zeros((ROWS + 1) * COLUMNS, np.float32)
        p = z if in_place else np.zeros_like(z)
        run[(1,)](x, z, p, out, 5, ROWS, COLUMNS)
        results.append(np.concatenate([z, p, out]))
    np.testing.assert_array_equal(*results)


@tw.jit
def turned_behind_sums(x, out, sums, R: tl.constexpr, C: tl.constexpr):
    """The second phase needs elements of rows that the first one has not computed yet."""
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tile = tl.exp(tl.load(x + i * C + j))
    tl.store(sums + i, tl.sum(tile, 1)[:, None])
    low, high = tl.split(tl.reshape(tile, [R * C // 2, 2]))
    tl.store(out + i * C + j, tl.reshape(tl.cat(low, high, can_reorder=True), [R, C]))


@tw.jit
def halves_behind_sums(x, out, sums, R: tl.constexpr, C: tl.constexpr):
    """The second phase needs elements of the same row, in another order."""
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C // 2)[None, :]
    tile = tl.exp(tl.load(x + i * C + tl.arange(0, C)[None, :]))
    total = tl.sum(tile, 1)[:, None]
    low, high = tl.split(tl.reshape(tile, [R, C // 2, 2]))
    tl.store(sums + i, total)
    tl.store(out + i * C + j, low / total)
    tl.store(out + i * C + C // 2 + j, high / total)


@pytest.mark.parametrize("cpu", CPUS)
@code_on("znver5")
def test_rows_are_kept_for_themselves_only(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.random.default_rng(5).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    numbers = np.exp(x)
    out, sums = np.zeros_like(x), np.zeros(ROWS, np.float32)
    kernel = turned_behind_sums[(1,)](x, out, sums, ROWS, COLUMNS)
    np.testing.assert_allclose(sums, numbers.sum(1), rtol=1e-5)
    np.testing.assert_allclose(out, numbers.reshape(-1, 2).T.reshape(ROWS, COLUMNS), rtol=1e-5)
    assert "row = true" not in kernel.asm["ttcir"]
    kernel = halves_behind_sums[(1,)](x, out, sums, ROWS, COLUMNS)
    assert "row = true" in kernel.asm["ttcir"]
    np.testing.assert_allclose(out, np.hstack([numbers[:, ::2], numbers[:, 1::2]]) / sums[:, None], rtol=1e-5)


@tw.jit
def copied_by_remainders(x, n, R: tl.constexpr):
    """The addresses are kept for the second turn, one of each row."""
    i = tl.arange(0, R)
    for _ in tl.static_range(2):
        tl.store(x + i[:, None], tl.load(x + i % n)[:, None])


@pytest.mark.parametrize("cpu", CPUS)
def test_addresses_of_rows_are_kept(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.arange(20, dtype=np.int32)
    copied_by_remainders[(1,)](x, 5, 16)
    assert x.tolist() == [*(i % 5 for i in range(16)), 16, 17, 18, 19]


def scaled_in_a_loop(x, z, out, n, C: tl.constexpr):
    """Inside the loop each row has a number, which the kernel has overwritten in memory before."""
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, C)[None, :]
    number = tl.load(z + i)
    tl.store(z + i, -1.0)
    for k in range(0, n, C):
        tl.store(out + i * n + k + j, tl.load(x + i * n + k + j) * tl.broadcast_to(number, [4, C]))


@pytest.mark.parametrize("cpu", CPUS)
def test_what_a_loop_reads_of_a_row_is_kept_once(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x, z = np.arange(512, dtype=np.float32).reshape(4, 128), np.arange(1, 5, dtype=np.float32)
    out = np.zeros_like(x)
    expected = x * z[:, None]
    compiled = tw.jit(scaled_in_a_loop)[(1,)](x, z, out, 128, C=32)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(z, -1)
    writes = [line for line in compiled.asm["ttcir"].splitlines() if "cpu.write" in line]
    assert writes
    assert all("tensor<4x1xf32>" in write for write in writes), "no write has the number for each column"
