"""A tuple is chosen at run time."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    pair = (n, 1) if n > 0 else (2, n)
    tl.store(x, pair[0])
