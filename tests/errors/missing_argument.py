"""A helper called with too few arguments."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def scaled(value, factor):
    return value * factor


@tw.jit
def kernel(x):
    tl.store(x, scaled(tl.load(x)))
