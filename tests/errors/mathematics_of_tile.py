"""A function of Python's mathematics on a tile."""

import math

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    i = tl.arange(0, 16)
    tl.store(x + i, math.exp(tl.load(x + i)))
