"""Which registers of a tile are known to be equal."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled

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
def copied(x, out, n, B: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.slow
def test_one_comparison_serves_a_run() -> None:
    x = np.zeros(512, np.int64)
    assert compiled(copied, [x, x, 64], B=512).asm["llir"].count("icmp slt") == 2  # of four registers of each thread
    assert compiled(copied, [x, x, 63], B=512).asm["llir"].count("icmp slt") == 4
