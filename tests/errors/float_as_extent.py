"""A number with a fraction as an extent."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x, BLOCK: tl.constexpr = 256.0):
    tl.store(x + tl.arange(0, BLOCK), 1.0)
