"""`while True`, left by `return`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
STAYS = True


@tw.jit
def counted(n):
    while True:
        n += 1
        if n > 7:
            return n


@tw.jit
def kernel(x, n):
    tl.store(x, counted(n))
