"""`raise` on a path that is taken."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    if n > 3:
        raise ValueError("too many")
    tl.store(x, n)
