"""An assertion about constants."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "BLOCK": 8}
DEBUG = True


@tw.jit
def kernel(x, BLOCK: tl.constexpr):
    assert BLOCK % 16 == 0, f"{BLOCK} is no multiple of 16"
    tl.store(x, 0.0)
