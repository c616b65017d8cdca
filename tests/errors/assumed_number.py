"""A number where a truth is assumed."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    tl.assume(n)
    tl.store(x, n)
