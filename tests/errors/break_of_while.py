"""`break` in a `while` inside of a `for`."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
STAYS = True


@tw.jit
def kernel(x, n):
    for i in range(n):
        k = i
        while k > 0:
            k -= 1
            if k == 1:
                break
        tl.store(x + i, k)
