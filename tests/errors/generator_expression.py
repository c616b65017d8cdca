"""A generator expression."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    tl.store(x, sum(n + i for i in (1, 2)))
