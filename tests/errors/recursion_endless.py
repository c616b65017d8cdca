"""Two helpers that call each other, whatever happens."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def even(n):
    return odd(n - 1)


@tw.jit
def odd(n):
    return even(n - 1)


@tw.jit
def kernel(x, n):
    tl.store(x, even(n))
