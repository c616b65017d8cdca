"""Three variables for two values."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def kernel(x):
    a, b, c = (tl.load(x), tl.load(x + 1))
    tl.store(x, a + b + c)
