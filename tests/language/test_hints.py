"""Promises about arguments stand on the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.frontends import Parameter, evaluate_kernel, read_function
from tilewright.ir.printer import print_op


def promising(x: Any, n: Any) -> None:
    tl.multiple_of(n, 8)
    tl.store(x, n)


@tw.jit
def scaled(out, n):
    n = tl.multiple_of(n, 1)
    tl.store(out, 2 * tl.max_contiguous(n, 1))


@pytest.mark.parametrize("way", [{}, {"interpret": True}], ids=str)
def test_the_argument_1_has_hints_like_others(way: dict[str, Any]) -> None:
    """It is a constant, which had "no attribute `type`"."""
    for n in (1, 2):
        out = np.zeros(1, np.int32)
        tw.jit(scaled.fn, **way)[(1,)](out, n)
        assert out[0] == 2 * n


def test_multiple_of_an_argument() -> None:
    parameters = [Parameter("x", tl.pointer_type(tl.int32)), Parameter("n", tl.int32)]
    text = print_op(evaluate_kernel(read_function(promising), parameters, name="promising"))
    assert "%n: i32 {tt.divisibility = 8 : i32}" in text
