"""Shims for what programs use from the inside of Triton's library."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compat.core_shims import CONSTEXPR_0, _log2, get_int_dtype

pytestmark = pytest.mark.quick


@tw.jit
def bits(x, out, NEGATED: tl.constexpr = CONSTEXPR_0, N: tl.constexpr = 16):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    if NEGATED:
        value = -value
    integers = get_int_dtype(bitwidth=value.dtype.primitive_bitwidth, signed=True)
    steps: tl.constexpr = _log2(value.shape[0])
    tl.static_assert(steps == 4)
    tl.store(out + i, value.to(integers, bitcast=True))


def test_in_a_kernel() -> None:
    x, out = np.linspace(-1, 1, 16, dtype=np.float32), np.zeros(16, np.int32)
    bits[(1,)](x, out)
    assert (out == x.view(np.int32)).all()
    bits[(1,)](x, out, NEGATED=1)
    assert (out == (-x).view(np.int32)).all()


@pytest.mark.parametrize(("width", "signed", "name"), [(1, True, "int1"), (8, False, "uint8"), (64, True, "int64")])
def test_integers_by_width(width: int, signed: bool, name: str) -> None:
    assert get_int_dtype(width, signed).name == name


def test_no_such_integers() -> None:
    with pytest.raises(ValueError, match="no integers of 24 bits"):
        get_int_dtype(24, True)


@pytest.mark.parametrize(("number", "position"), [(1, 0), (2, 1), (3, 1), (4, 2), (1 << 40, 40)])
def test_the_highest_bit(number: int, position: int) -> None:
    assert _log2(number) == position
