"""A list is changed in place; Python does that while tracing."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    values = [n, 2]
    values[1] = n
    tl.store(x, values[1])
