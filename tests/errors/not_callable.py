"""A call of a tile."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    value = tl.load(x)
    tl.store(x, value(3))
