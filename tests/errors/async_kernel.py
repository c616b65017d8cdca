"""A kernel that is a coroutine."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
INTERPRETED = True


@tw.jit
async def kernel(x, n):
    tl.store(x, n)
