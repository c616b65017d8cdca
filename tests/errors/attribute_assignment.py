"""An attribute of a tile is assigned."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    tile = tl.arange(0, 8) + n
    tile.shape = (8,)
    tl.store(x + tile, n)
