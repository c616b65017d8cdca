"""A loop that counts to a float."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "fp32"}


@tw.jit
def kernel(x, n):
    for i in range(n):
        tl.store(x + i, 0.0)
