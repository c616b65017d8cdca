"""A Python built-in that kernels do not have."""

import tilewright as tw

SIGNATURE = {"n": "i32"}


@tw.jit
def kernel(n):
    open(n)
