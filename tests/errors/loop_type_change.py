"""A variable that changes its type in a loop."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    total = 0
    for i in range(n):
        total += tl.load(x + i)
    tl.store(x, total)
