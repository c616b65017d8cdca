"""A variable with different types on the two sides of an `if`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    if n > 0:
        value = 1
    else:
        value = 1.5
    tl.store(x, value)
