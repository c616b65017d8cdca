"""A Python built-in that kernels do not have."""

SIGNATURE = {"n": "i32"}


def kernel(n):
    open(n)
