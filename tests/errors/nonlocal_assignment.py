"""A variable of an enclosing function is assigned."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
INTERPRETED = True


def enclosing():
    count = tl.constexpr(0)

    @tw.jit
    def kernel(x, n):
        nonlocal count
        count = n
        tl.store(x, count)

    return kernel


kernel = enclosing()
