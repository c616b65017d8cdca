"""A helper that is a coroutine."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
INTERPRETED = True


@tw.jit
async def later(n):
    return n


@tw.jit
def kernel(x, n):
    tl.store(x, later(n))
