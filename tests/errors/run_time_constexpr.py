"""A run-time value declared as constant."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    half: tl.constexpr = n // 2
    tl.store(x, half)
