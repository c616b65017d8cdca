"""A variable with a value before two loops, which is the counter of the inner one, in the outer one's next turn."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    i = n
    for k in range(n):
        tl.store(x + k, i)
        for i in range(3):
            tl.store(x + i, 0.0)
