"""A tile as a condition."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    offsets = tl.arange(0, 16)
    if offsets > 3:
        tl.store(x, 0.0)
