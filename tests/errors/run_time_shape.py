"""A shape that is known only at run time."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    tl.store(x + tl.arange(0, n), 0.0)
