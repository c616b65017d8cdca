"""A run-time value where the items of a tuple are wanted."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def scaled(value, factor):
    return value * factor


@tw.jit
def kernel(x, n):
    tl.store(x, scaled(*n))
