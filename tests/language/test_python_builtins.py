"""Python's built-in functions in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def extremes(out, A: tl.constexpr, B: tl.constexpr):
    tl.store(out, min(A, B))
    tl.store(out + 1, max(A, B))


def test_numbers_that_have_an_order() -> None:
    out = np.zeros(2, np.float32)
    extremes[(1,)](out, 2.5, 0.0)
    assert out.tolist() == [0.0, 2.5]


@pytest.mark.parametrize("number", [float("nan"), -0.0])
def test_numbers_that_have_none_are_refused(number: float) -> None:
    with pytest.raises(tw.CompilationError, match=f"`min` does not accept a value = {number}"):
        extremes[(1,)](np.zeros(2, np.float32), 1.0, number)
