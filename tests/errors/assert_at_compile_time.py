"""`assert` of a constant, with a message."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "BLOCK": 12}
DEBUG = True


@tw.jit
def kernel(x, BLOCK: tl.constexpr):
    assert BLOCK > 0
    assert BLOCK % 8 == 0, f"BLOCK is {BLOCK}"
    tl.store(x, BLOCK)
