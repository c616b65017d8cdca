"""A variable gets its value in a loop that has no iterations."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    for i in tl.static_range(0):
        value = i
    tl.store(x, value + n)
