"""Ranges that are compared with a number of 64 bits, as in one-hot rows: lanes of 32 bits say which one it is."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here

LEVELS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4")


@tw.jit
def one_hot(target, out, first, columns, KIND: tl.constexpr, B: tl.constexpr):
    """Each row's target in ranges of KIND from `first` on, which may wrap before they are extended."""
    row = tl.program_id(0)
    wanted = tl.load(target + row)
    for start in tl.range(0, columns, B):
        lane = start + tl.arange(0, B)
        number = (first.to(KIND) + lane.to(KIND)).to(tl.int64)
        tl.store(out + row * columns + lane, tl.where(number == wanted, 1.0, 0.0), lane < columns)


@tw.jit
def others(target, out, columns, R: tl.constexpr, B: tl.constexpr):
    """All but the target of each row, and the target's remainder by 16, of rows side by side."""
    row, lane = tl.arange(0, R), tl.arange(0, B)
    wanted = tl.load(target + row)[:, None]
    differs = lane[None, :].to(tl.int64) != wanted
    is_rest = (lane % 16)[None, :].to(tl.int64) == wanted % 16
    place = row[:, None] * columns + lane[None, :]
    tl.store(out + place, tl.where(differs, 1, 0) + tl.where(is_rest, 2, 0), lane[None, :] < columns)


def targets(*further: int) -> np.ndarray:
    edges = [0, 1, 36, 37, 38, 127, 128, 255, 256, -1, -128, -129, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 5]
    return np.array([*edges, 2**63 - 1, -(2**63), 2**31 + 7, -(2**31) + 7, *further], np.int64)


@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize(
    ("kind", "numpy_kind"),
    [(tl.int8, np.int8), (tl.int16, np.int16), (tl.int32, np.int32), (tl.int64, np.int64)],
)
def test_one_hot_rows(
    monkeypatch: pytest.MonkeyPatch, cpu: str, dtype: type, kind: tl.dtype, numpy_kind: type[np.signedinteger]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    columns = 300
    for first in (0, 5, -7, 2**31 - 40):
        found = targets(first, first + 7, first + 299)
        out: np.ndarray = np.empty((len(found), columns), dtype)
        one_hot[(len(found),)](found, out, np.int64(first), columns, KIND=kind, B=128)
        numbers = (first + np.arange(columns)).astype(numpy_kind).astype(np.int64)
        np.testing.assert_array_equal(out, numbers[None] == found[:, None])


@pytest.mark.parametrize("cpu", LEVELS)
@code_on("x86-64-v3")
def test_rows_of_a_tile_have_a_target_each(monkeypatch: pytest.MonkeyPatch, cpu: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    found = targets()[:16]
    out = np.empty((16, 100), np.int32)
    others[(1,)](found, out, 100, R=16, B=128)
    lane = np.arange(100)[None]
    rest = np.fmod(found, 16)[:, None]
    np.testing.assert_array_equal(out, (lane != found[:, None]) + 2 * (lane % 16 == rest))


def test_no_lane_has_64_bits() -> None:
    """It had, and each number was extended: one-hot rows took 1.5 times as long with AVX-512."""
    kernel = one_hot.warmup(targets(), np.empty(300, np.float32), 0, 300, KIND=tl.int32, B=128, grid=(1,))
    assert "xi64>" not in kernel.asm["loops"]
