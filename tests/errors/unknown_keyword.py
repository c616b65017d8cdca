"""A builtin called with a keyword that it does not have."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    tl.store(x, tl.load(x, masked=True))
