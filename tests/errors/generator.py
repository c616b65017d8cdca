"""A kernel that yields: called, it would not even start."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
INTERPRETED = True


@tw.jit
def kernel(x, n):
    yield tl.store(x, n)
