"""Masks made of signs: what is asked of single lanes leaves the mask as it is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here

WITH_MASKS = ("x86-64-v4", "icelake-server", "znver4")
"""The processors with AVX-512."""
CPUS = run_here("x86-64-v2", "x86-64-v3", *WITH_MASKS, "aarch64")
SIDE = 4
"""The rows and columns of a tile."""


def least(x, signs, out, n, B: tl.constexpr):
    """The rows of a tile lie in columns of vectors, whose lanes are loaded one by one; their masks are joined later."""
    lane = tl.arange(0, B * B)
    place = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    found = tl.min(tl.load(x + place, mask=tl.load(signs + place) < 0, other=8)) & 7
    tl.store(out + lane + found, tl.load(x + lane), mask=lane >= n)


def columns(x, signs, out, n, B: tl.constexpr):
    place = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    negative = tl.load(signs + place) < 0
    value = tl.load(x + tl.trans(place), mask=negative, other=n)
    tl.store(out + place, tl.where(negative & (value > n), value, 1))


def far_apart(x, signs, out, n, B: tl.constexpr):
    lane = tl.arange(0, B * B)
    negative = tl.load(signs + lane) < 0
    value = tl.load(x + lane * n, mask=negative, other=3)
    tl.store(out + lane * n, value + 1, mask=negative & (value < 5))


def arrays(seed: int) -> list[Any]:
    x, signs = np.random.default_rng(seed).integers(-4, 10, (2, 128)).astype(np.int32)
    return [x, signs, np.zeros(128, np.int32)]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("function", [least, columns, far_apart])
def test_lanes_and_mask_are_both_right(function: Any, cpu: str) -> None:
    """LLVM 22 left `vpmovd2m` out, so that the masks of `least` were what had been in the registers."""
    compiled, python = tw.jit(function), tw.jit(interpret=True)(function)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        for seed in range(20):
            found, expected = arrays(seed), arrays(seed)
            kernel = compiled[(1,)](*found, 3, B=SIDE)
            python[(1,)](*expected, 3, B=SIDE)
            np.testing.assert_array_equal(found, expected)
    if cpu in WITH_MASKS:
        assert not re.findall("v?p?movmsk.*", kernel.asm["asm"])


def shared(x, out, rows, columns, B: tl.constexpr):
    """Whether a row counts is known in front of the loop along it, whose vectors have masks of their own."""
    j = tl.program_id(0) * 4 * B + tl.arange(0, 4 * B)[None, :]
    total = tl.zeros((B, 4 * B), tl.float32)
    for start in range(0, rows, B):
        i = start + tl.arange(0, B)[:, None]
        total += tl.load(x + i * columns + j, mask=(i < rows) & (j < columns), other=0.5)
    tl.store(out + j, tl.sum(total, 0)[None, :])


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(("rows", "columns"), [(0, 9), (3, 9), (8, 15), (9, 14), (21, 3), (13, 40)])
def test_a_flag_for_all_lanes_goes_into_loops(cpu: str, rows: int, columns: int) -> None:
    """With AVX2 it goes as numbers as wide as the elements: as a mask of eight lanes it was widened for each access."""
    x, found = np.arange(24 * 40, dtype=np.float32), np.zeros(32, np.float32)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        kernel = tw.jit(shared)[(1,)](x, found, rows, columns, B=8)
    expected, turns = np.full((-(-rows // 8) * 8, 32), 0.5, np.float32), x[: rows * columns].reshape(rows, columns)
    expected[:rows, :columns] = turns[:, :32]
    np.testing.assert_array_equal(found, expected.sum(0))
    widened, numbers = (
        re.search(pattern, kernel.asm[stage])
        for pattern, stage in ((r"vpslld\s+\$31", "asm"), (r"icmp slt <8 x i32> %\w+, zeroinitializer", "llir"))
    )
    assert (widened, bool(numbers)) == (None, cpu == "x86-64-v3")


def from_constants(out, B: tl.constexpr):
    lane = tl.arange(0, B)
    for _ in tl.static_range(48):
        lane = lane ^ (lane >> 1)
    tl.store(out + tl.arange(0, B), 7, mask=(lane & 1) == 0)


def test_a_mask_of_many_constants_is_looked_through_once() -> None:
    """Whether LLVM knows a mask is asked of what it is made of: each op here has two ways to the one before."""
    out, lane = np.zeros(16, np.int32), np.arange(16)
    tw.jit(from_constants)[(1,)](out, B=16)
    for _ in range(48):
        lane ^= lane >> 1
    np.testing.assert_array_equal(out, np.where(lane & 1, 0, 7))
