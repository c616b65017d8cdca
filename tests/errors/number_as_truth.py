"""`and` of numbers that are known at run time."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32", "m": "i32"}


@tw.jit
def kernel(x, n, m):
    if n > 0 and m:
        tl.store(x, 1)
