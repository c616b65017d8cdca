"""An ordinary Python function with a tile."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def scaled(value):
    return value * 2


@tw.jit
def kernel(x):
    tl.store(x, scaled(tl.load(x)))
