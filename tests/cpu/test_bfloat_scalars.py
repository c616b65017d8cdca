"""Scalars of bf16 that live in several blocks of machine code keep their bits: LLVM has no registers for them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def carried(x, out, n):
    value = tl.load(x)
    for i in range(n):
        value = tl.where(i > 100, value + value, value)
    tl.store(out, value)


@tw.jit
def repeated(x, out):
    value = tl.cast(tl.load(x), tl.bfloat16, bitcast=True)
    tl.store(out + tl.arange(0, 16)[:, None], value)


def test_subnormal_numbers_and_nans() -> None:
    for bits in (1, 0x8001, 0x7F, 0x7F81, 0xFFFF):
        x = np.array([bits], np.uint16)
        out = np.zeros(16, np.uint16)
        carried[(1,)](x.view(ml_dtypes.bfloat16), out.view(ml_dtypes.bfloat16), 5)
        assert out[0] == bits
        repeated[(1,)](x.view(np.int16), out.view(ml_dtypes.bfloat16))
        assert (out == bits).all()
