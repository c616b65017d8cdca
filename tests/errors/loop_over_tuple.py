"""A loop over a tuple, which Triton does not have."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    for value in (n, n + 1):
        tl.store(x, value)
