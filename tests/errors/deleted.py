"""A variable after `del`."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def kernel(x):
    value = tl.load(x)
    del value
    tl.store(x, value)
