"""A number where a truth is asserted."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "N": 8}


@tw.jit
def kernel(x, N: tl.constexpr):
    tl.static_assert(N)
    tl.store(x, N)
