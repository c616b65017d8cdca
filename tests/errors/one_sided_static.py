"""A variable defined in the branch that a constant rules out."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "FLAG": False}


@tw.jit
def kernel(x, FLAG: tl.constexpr):
    if FLAG:
        value = 1
    tl.store(x, value)
