"""A shape that is a number."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "N": 8}


@tw.jit
def kernel(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.zeros(N, tl.int32))
