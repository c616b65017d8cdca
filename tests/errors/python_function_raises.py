"""A Python function, called with constants, raises."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "BLOCK": 12}


@tw.constexpr_function
def checked(block):
    assert block in (8, 16), f"no {block}"
    return block


@tw.jit
def kernel(x, BLOCK: tl.constexpr):
    tl.store(x, checked(BLOCK))
