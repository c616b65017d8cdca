"""A loop over a tile."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    for value in tl.arange(0, 4) + n:
        tl.store(x, value)
