"""A variable is read before it has a value."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    tl.store(x, later + n)
    later = 1
