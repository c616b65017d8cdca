"""A mask that does not fit."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    value = tl.load(x + tl.arange(0, 16), mask=tl.arange(0, 32) < 20)
    tl.store(x + tl.arange(0, 16), value)
