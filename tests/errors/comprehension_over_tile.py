"""A comprehension over a tile."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    values = [i + 1 for i in tl.arange(0, 4) + n]
    tl.store(x, values[0])
