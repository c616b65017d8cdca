"""A static assertion that does not hold, in a helper of a helper."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "BLOCK": 8}


@tw.jit
def check(BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 16, f"BLOCK must be at least 16, not {BLOCK}")


@tw.jit
def offsets_of(BLOCK: tl.constexpr):
    check(BLOCK)
    return tl.arange(0, BLOCK)


@tw.jit
def kernel(x, BLOCK: tl.constexpr):
    tl.store(x + offsets_of(BLOCK), 0.0)
