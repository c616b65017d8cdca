"""A helper that yields; Python runs it while tracing."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}
INTERPRETED = True


@tw.jit
def both(n):
    yield n
    yield n + 1


@tw.jit
def kernel(x, n):
    for value in both(n):
        tl.store(x, value)
