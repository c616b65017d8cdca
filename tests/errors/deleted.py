"""A variable after `del`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    value = tl.load(x)
    del value
    tl.store(x, value)
