"""A helper called with too few arguments."""

from evaluating import jit

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@jit
def scaled(value, factor):
    return value * factor


def kernel(x):
    tl.store(x, scaled(tl.load(x)))
