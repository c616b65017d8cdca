"""A variable that exists only inside a loop."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    for i in range(n):
        last = tl.load(x + i)
    tl.store(x, last)
