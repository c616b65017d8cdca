"""A helper that returns different types."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def pick(x, n):
    if n > 0:
        return tl.load(x)
    return n


@tw.jit
def kernel(x, n):
    tl.store(x, pick(x, n))
