"""`not` of a number that is known at run time."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    flag = not n
    tl.store(x, flag)
