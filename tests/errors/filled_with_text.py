"""A text where a number is needed."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32"}


@tw.jit
def kernel(x):
    tl.store(x + tl.arange(0, 4), tl.full((4,), "x", tl.int32))
