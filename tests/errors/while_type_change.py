"""A variable that changes its shape in a `while`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    value = 0.0
    while n > 0:
        value = value + tl.zeros((16,), tl.float32)
        n -= 1
    tl.store(x, value)
