"""An ordinary Python function with a tile."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def scaled(value):
    return value * 2


def kernel(x):
    tl.store(x, scaled(tl.load(x)))
