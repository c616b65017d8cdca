"""A global is assigned: by the kernel itself."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
INTERPRETED = True

COUNT = 0


@tw.jit
def kernel(x, n):
    global COUNT
    COUNT += 1
    tl.store(x, n)
