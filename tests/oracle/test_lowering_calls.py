"""Functions that stay calls in TTIR, and scalars that branches give."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, jit

import tilewright as tw
import tilewright.language as tl


@tw.jit(noinline=True)
def twice_and(x, y):
    return x * 2 + y


@tw.jit(noinline=True)
def noted(place, n):
    if n > 3:
        tl.store(place, 1.0)
    return twice_and(n, n)


@jit
def calling(out, n):
    tl.store(out + 1, twice_and(n, 3))
    tl.store(out + 2, noted(out, n) + noted(out + 3, n + 1))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_functions_that_are_not_inlined(n: int) -> None:
    out = agree(calling, np.zeros(4, np.float32), n)[0]
    np.testing.assert_array_equal(out, [n > 3, 2 * n + 3, 3 * n + 3 * (n + 1), n + 1 > 3])


@jit
def merged(x, n):
    a = tl.load(x)
    if n > 3:
        a = a + 1
        b = a * 2
    else:
        b = a
    tl.store(x, a + b)


@pytest.mark.parametrize("n", [3, 4])
def test_scalars_that_branches_give(n: int) -> None:
    agree(merged, np.full(2, 5, np.float32), n)
    agree(merged, np.full(2, 5, np.int32), n)
