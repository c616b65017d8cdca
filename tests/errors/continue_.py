"""`continue`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
STAYS = True


@tw.jit
def kernel(x, n):
    for i in range(n):
        if i == 3:
            continue
        tl.store(x + i, i)
