"""tl.static_range up to a run-time value."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32", "n": "i32"}


@tw.jit
def kernel(x, n):
    for i in tl.static_range(n):
        tl.store(x + i, 0.0)
