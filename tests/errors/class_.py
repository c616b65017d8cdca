"""A class made inside of the kernel."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    class Pair:
        first = 1

    tl.store(x, n + Pair.first)
