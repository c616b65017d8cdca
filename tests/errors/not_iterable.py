"""A loop over a tile."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def kernel(x):
    for value in tl.arange(0, 16):
        tl.store(x, value)
