"""An import inside of the kernel."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    import math

    tl.store(x, n + int(math.pi))
