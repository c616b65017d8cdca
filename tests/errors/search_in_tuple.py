"""`in`, which Triton does not have."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "N": 8}


@tw.jit
def kernel(x, N: tl.constexpr):
    if N in (8, 16):
        tl.store(x, N)
