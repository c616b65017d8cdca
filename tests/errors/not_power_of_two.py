"""A block that is no power of two."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "BLOCK": 100}


def kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)
