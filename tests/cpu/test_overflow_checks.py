"""Integers that overflow: with debugging on, `+`, `-` and `*` assert that they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import DeviceAssertError

LIMIT = 2**31


def added(x, y, z):
    tl.store(z, tl.load(x) + tl.load(y))


def subtracted(x, y, z):
    tl.store(z, tl.load(x) - tl.load(y))


def multiplied(x, y, z):
    tl.store(z, tl.load(x) * tl.load(y))


CASES = [
    (added, -LIMIT, -1, "int32", "add"),
    (added, LIMIT - 1, 100, "int32", "add"),
    (added, -LIMIT, 2, "int32", None),
    (added, -(2**15), -1, "int16", "add"),
    (added, 2**32 - 1, 1, "uint32", "add"),
    (added, 127, 1, "int8", "add"),
    (added, 2**63 - 1, 1, "int64", None),
    (subtracted, -LIMIT, 1, "int32", "sub"),
    (subtracted, 0, 1, "uint8", "sub"),
    (subtracted, LIMIT - 1, 1, "int32", None),
    (multiplied, 2**30, 2, "int32", "mul"),
    (multiplied, -(2**30), 2, "int32", None),
    (multiplied, 2**32 - 1, 2**32 - 1, "uint32", "mul"),
]


@pytest.mark.parametrize(("function", "x", "y", "dtype", "operation"), CASES)
@pytest.mark.parametrize("interpret", [False, True])
def test_overflow(function: Any, x: int, y: int, dtype: str, operation: str | None, interpret: bool) -> None:
    kernel = tw.jit(function, interpret=interpret)
    left, right, out = np.array([x], dtype), np.array([y], dtype), np.zeros(1, dtype)
    kernel[(1,)](left, right, out)
    wrapped = out.copy()
    kernel[(1,)](left, right, out, debug=True, sanitize_overflow=False)
    if operation is None:
        kernel[(1,)](left, right, out, debug=True)
    else:
        with pytest.raises(DeviceAssertError) as caught:
            kernel[(1,)](left, right, out, debug=True)
        bits = np.dtype(dtype).itemsize * 8
        assert caught.value.message == f"int{bits} overflow detected for operation {operation}"
        assert "device-side assert" in str(caught.value)
    assert out == wrapped


@pytest.mark.parametrize("interpret", [False, True])
def test_the_decorator_asks_for_checks(interpret: bool) -> None:
    kernel = tw.jit(added, interpret=interpret, debug=True)
    x = np.array([100], np.int8)
    with pytest.raises(DeviceAssertError, match="int8 overflow detected for operation add"):
        kernel[(1,)](x, x, x)


def test_functions_that_say_so_may_wrap() -> None:
    @tw.jit(debug=True)
    def kernel(x, out):
        offsets = tl.arange(0, 64)
        wrapped = tl.add(tl.mul(tl.load(x), 2, sanitize_overflow=False), -2, sanitize_overflow=False)
        tl.store(out + offsets, tl.rand(wrapped, offsets))

    out = np.zeros(64, np.float32)
    kernel[(1,)](np.array([LIMIT - 1], np.int32), out)
    assert np.unique(out).size > 32


def test_kernels_that_do_not_overflow_compute_the_same() -> None:
    @tw.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        total = 0
        for start in range(n - BLOCK, -1, -BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            total += tl.sum(tl.load(x + offsets) * (offsets % 3))
        tl.store(out, total)

    x = np.arange(256, dtype=np.int32)
    out = np.zeros(2, np.int32)
    kernel[(1,)](x, out, 256, BLOCK=32)
    kernel[(1,)](x, out[1:], 256, BLOCK=32, debug=True)
    assert out[0] == out[1] == (x * (x % 3)).sum()
