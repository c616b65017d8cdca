"""The loop variable after the loop."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    for i in range(n):
        tl.store(x + i, 0.0)
    tl.store(x, i)
