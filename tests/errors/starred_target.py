"""The rest of a tuple."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    first, *rest = (n, 2, 3)
    tl.store(x, first + rest[0])
