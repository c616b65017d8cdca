"""Pointers and offsets of all integer types: what has no sign is not taken for negative."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def far(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    offsets = tl.load(x + i)
    tl.store(out + 128 + offsets, i)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int64"])
def test_offsets_have_the_sign_of_their_type(dtype: str) -> None:
    offsets = np.array([0, 1] if dtype == "bool" else [-3, 4] if dtype[0] == "i" else [3, 200], dtype)
    out = np.full(512, -1)

    far[(1,)](offsets, out, BLOCK=2)

    expected = np.full(512, -1)
    expected[128 + offsets.astype(np.int64)] = [0, 1]
    assert (out == expected).all()
