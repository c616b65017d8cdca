"""A loop over a tile."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    for value in tl.arange(0, 16):
        tl.store(x, value)
