"""A helper that calls itself at run time."""

from evaluating import jit

import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@jit
def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


def kernel(x, n):
    tl.store(x, factorial(n))
