"""A kernel that returns a value."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def kernel(x):
    return tl.load(x)
