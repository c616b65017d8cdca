"""`while True`, left by `break`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
STAYS = True


@tw.jit
def kernel(x, n):
    while True:
        n -= 1
        if n < 0:
            break
    tl.store(x, n)
