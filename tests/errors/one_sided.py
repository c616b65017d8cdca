"""A variable that only one side of an `if` defines."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    if n > 0:
        value = 1.0
    tl.store(x, value)
