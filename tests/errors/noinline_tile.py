"""A tile for a function marked noinline."""

from evaluating import Helper

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def double(tile):
    return tile * 2


apart = Helper(double, noinline=True)


def kernel(x):
    offsets = tl.arange(0, 16)
    tl.store(x + offsets, apart(tl.load(x + offsets)))
