"""A misspelled variable."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    offsets = tl.arange(0, 16)
    tl.store(x + offsets, ofsets)
