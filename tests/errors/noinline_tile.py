"""A tile for a function marked noinline."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit(noinline=True)
def apart(tile):
    return tile * 2


@tw.jit
def kernel(x):
    offsets = tl.arange(0, 16)
    tl.store(x + offsets, apart(tl.load(x + offsets)))
