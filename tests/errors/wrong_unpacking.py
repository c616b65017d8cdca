"""Three variables for two values."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    a, b, c = (tl.load(x), tl.load(x + 1))
    tl.store(x, a + b + c)
