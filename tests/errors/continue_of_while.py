"""`continue` in a `while`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
STAYS = True


@tw.jit
def kernel(x, n):
    while n > 0:
        n -= 1
        if n == 3:
            continue
        tl.store(x + n, n)
