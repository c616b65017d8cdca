"""Brackets around a condition and its message."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    checked = (n > 0, "n is negative")
    assert checked
    tl.store(x, n)
