"""A constant that is declared twice."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    SIZE: tl.constexpr = 4
    tl.store(x + tl.arange(0, SIZE), n)
    SIZE: tl.constexpr = 8
    tl.store(x + tl.arange(0, SIZE), n)
