"""A comprehension over a range that is known at run time only."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    values = [i + 1 for i in range(n)]
    tl.store(x, values[0])
