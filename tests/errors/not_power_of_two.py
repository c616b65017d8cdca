"""A block that is no power of two."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "BLOCK": 100}


@tw.jit
def kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)
