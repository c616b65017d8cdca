"""How far scans go: forwards to the end of what is seen of them, through all elements elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_clipped_loops import CHUNKS, TILE, chunks_run, loops_of

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here


@tw.jit
def forwards(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out + column, tl.cumsum(values, 0), mask=column < n)


@tw.jit
def backwards(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out + column, tl.cumsum(values, 0, reverse=True), mask=column < n)


@tw.jit
def stored_whole(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    values = tl.load(x + column, mask=column < n, other=1.0)
    tl.store(out + column, tl.cumsum(values, 0))


@tw.jit
def with_its_last_element(x, out, n, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    sums = tl.cumsum(tl.load(x + column, mask=column < n, other=1.0), 0)
    tl.store(out + column, sums, mask=column < n)
    tl.store(out, tl.max(sums, 0))


@tw.jit
def two_scans(x, out, n, TILE: tl.constexpr):
    """The second scan sees all of the first one."""
    column = tl.arange(0, TILE)
    sums = tl.cumsum(tl.load(x + column, mask=column < n, other=1.0), 0)
    tl.store(out + column, tl.cumsum(sums, 0, reverse=True), mask=column < n)


@tw.jit
def down_columns(x, out, rows, columns, DOWN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    inside = (row < rows) & (column < columns)
    values = tl.load(x + row * columns + column, inside, 0.5)
    tl.store(out + row * columns + column, tl.cumsum(values, 0, reverse=not DOWN), inside)


@pytest.mark.parametrize(
    ("kernel", "chunks"),
    [
        (forwards, [3, 3]),
        (backwards, [CHUNKS, 3]),
        (stored_whole, [CHUNKS, CHUNKS]),
        (two_scans, [CHUNKS, CHUNKS, 3]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_scans_end_where_they_are_seen_to(kernel: Any, chunks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert chunks_run(loops_of(kernel), 40, monkeypatch) == chunks


def test_a_scan_that_is_reduced_goes_all_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chunks_run(loops_of(with_its_last_element), 40, monkeypatch)[0] == CHUNKS


@pytest.mark.parametrize("n", [-1, 0, 1, 15, 16, 17, 40, TILE])
@pytest.mark.parametrize("target", run_here("x86-64-v2", "x86-64-v3", "x86-64-v4"))
def test_results(target: str, n: int) -> None:
    """Memory that the mask hides stays as it was, and what lies beyond the mask counts where it is seen."""
    x = np.random.default_rng(n + 1).standard_normal(TILE).astype(np.float32)
    seen = max(n, 0)
    loaded = np.where(np.arange(TILE) < seen, x, np.float32(1))
    for kernel, sums in [
        (forwards, np.cumsum(loaded.astype(float))),
        (backwards, np.cumsum(loaded[::-1].astype(float))[::-1]),
    ]:
        out = np.full(TILE, 7.0, np.float32)
        with tw.knobs.tilewright.scope():
            tw.knobs.tilewright.cpu = target
            kernel[(1,)](x, out, n, TILE=TILE)
        np.testing.assert_allclose(out[:seen], sums[:seen], rtol=1e-3, atol=1e-3)
        assert (out[seen:] == 7).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 16), (16, 32), (13, 31), (16, 0)])
@pytest.mark.parametrize("is_down", [True, False])
def test_columns(shape: tuple[int, int], *, is_down: bool) -> None:
    """Rows behind the mask count where the scan goes upwards: 0.5 each."""
    rows, columns = shape
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    out = np.zeros(shape, np.float32)
    down_columns[(1,)](x, out, rows, columns, DOWN=is_down, BM=16, BN=32)
    sums = np.cumsum(x.astype(float) if is_down else x[::-1].astype(float), 0)
    wanted = sums if is_down else (sums + 0.5 * (16 - rows))[::-1]
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
