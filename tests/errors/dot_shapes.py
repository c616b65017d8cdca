"""Matrices that cannot be multiplied."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    a = tl.zeros((16, 32), tl.float32)
    b = tl.zeros((16, 32), tl.float32)
    c = tl.dot(a, b)
    tl.store(x + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :], c)
