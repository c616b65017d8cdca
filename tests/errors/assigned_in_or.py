"""`:=` where nobody knows whether it is evaluated."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    k = 3
    flag = n > 0 or (k := n * 2) > 3
    tl.store(x, k + flag.to(tl.int32))
