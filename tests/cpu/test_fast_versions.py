"""Fast versions of loops rely on conditions; every loop that does tests them, also when an earlier one did."""

from __future__ import annotations

import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def largest_kernel(out_ptr, n, start, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)
    column = (start + tl.arange(0, BLOCK)) % n
    tl.store(out_ptr, tl.max(tl.max(row[:, None] * n + column[None, :], axis=1), axis=0))


def test_a_second_row_tests_that_the_range_does_not_wrap() -> None:
    out = np.zeros(1, np.int32)
    largest_kernel[(1,)](out, 40, 32, BLOCK=32)
    assert out[0] == 31 * 40 + 39
