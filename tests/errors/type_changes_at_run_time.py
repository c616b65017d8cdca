"""A compile-time value that changes in a run-time loop."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    kind = tl.float32
    for i in range(n):
        kind = tl.float16
        tl.store(x + i, tl.zeros((), kind))
