"""Tiles are values."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    tile = tl.zeros((16,), tl.float32)
    tile[3] = 1.0
    tl.store(x + tl.arange(0, 16), tile)
