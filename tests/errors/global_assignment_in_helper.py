"""A global is assigned by a helper."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}

LAST = 0


@tw.jit
def remembered(n):
    global LAST
    LAST = n
    return n


@tw.jit
def kernel(x, n):
    tl.store(x, remembered(n))
