"""A helper that calls itself at run time."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@tw.jit
def kernel(x, n):
    tl.store(x, factorial(n))
