"""A comprehension with two `for`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    values = [n + i * j for i in (1, 2) for j in (3, 4)]
    tl.store(x, values[3])
