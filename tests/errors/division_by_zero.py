"""Python refuses at compile time."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "N": 0}


@tw.jit
def kernel(x, N: tl.constexpr):
    tl.store(x, 16 // N)
