"""A helper made inside of the kernel."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    @tw.jit
    def doubled(value):
        return value * 2

    tl.store(x, doubled(n))
