"""Registers of a tile that are known to be equal."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, run

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia.lower.rules import first_of_runs
from tilewright.layouts.linear_layout import LinearLayout


def test_registers_of_one_run_are_one() -> None:
    layout = LinearLayout({"register": (1, 4, 16), "lane": (2, 8)}, (("dim0", 32),))
    assert first_of_runs(layout, (1,)) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert first_of_runs(layout, (4,)) == [0, 0, 2, 2, 4, 4, 6, 6]
    assert first_of_runs(layout, (8,)) == [0, 0, 0, 0, 4, 4, 4, 4]


@tw.jit
def copied(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.slow
def test_one_comparison_serves_a_run() -> None:
    x = np.zeros(512, np.int64)
    assert compiled(copied, [x, x, 64], B=512).asm["llir"].count("icmp slt") == 2  # of four registers of each thread
    assert compiled(copied, [x, x, 63], B=512).asm["llir"].count("icmp slt") == 4


@tw.jit
def looked_up(table, x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)[:, None] + tl.arange(0, 4)[None, :] * 0
    k = tl.reshape(tl.arange(0, 4 * B), [B, 4])
    tl.store(out + k, tl.load(table + tl.load(x + i, mask=i < n, other=k)))


@pytest.mark.slow
def test_what_masked_loads_give_instead_is_not_equal() -> None:
    """One address, one mask for four elements, and four other numbers."""
    table, x = np.arange(64, dtype=np.int32) * 3, np.arange(16, dtype=np.int32)
    *_, found = run(looked_up, (1,), table, x, np.zeros(64, np.int32), 10, B=16)
    k = np.arange(64)
    assert (found == np.where(k < 40, table[k // 4], table)).all()
