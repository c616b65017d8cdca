"""A lambda."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    double = lambda value: value * 2
    tl.store(x, double(1.0))
