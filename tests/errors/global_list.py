"""A tile is kept in a global list."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}

KEPT = []


@tw.jit
def kernel(x, n):
    KEPT.append(n + 1)
    tl.store(x, n)
