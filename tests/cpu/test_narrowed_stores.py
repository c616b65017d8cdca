"""Stores of narrowed integers under masks that are known: no lane writes into its neighbour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here

CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
NARROWED = [("int64", "int32"), ("int64", "int8"), ("int32", "int16"), ("int32", "int8")]
HELD = 77
"""The content of memory that must not be written."""


def one_lane(x, out, AT: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out + lane, (tl.load(x + lane) + 1).to(out.dtype.element_ty), mask=lane == AT)


def one_of_eight(x, out, AT: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out + lane, (tl.load(x + lane) + 1).to(out.dtype.element_ty), mask=(lane & 7) == AT)


def below(x, out, AT: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    tl.store(out + lane, (tl.load(x + lane) + 1).to(out.dtype.element_ty), mask=lane * 2 <= AT * 2)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(("wide", "narrow"), NARROWED)
@pytest.mark.parametrize("kernel", [one_lane, one_of_eight, below])
def test_only_the_lanes_under_the_mask(kernel: Any, wide: str, narrow: str, cpu: str) -> None:
    for block, at in ((8, 0), (16, 0), (16, 2), (32, 3), (64, 0)):
        x, out, lane = np.arange(block).astype(wide), np.full(block, HELD, narrow), np.arange(block)
        with tw.knobs.tilewright.scope():
            tw.knobs.tilewright.cpu = cpu
            tw.jit(kernel)[(1,)](x, out, AT=at, BLOCK=block)
        inside = {one_lane: lane == at, one_of_eight: lane & 7 == at, below: lane <= at}[kernel]
        np.testing.assert_array_equal(out, np.where(inside, lane + 1, HELD))
