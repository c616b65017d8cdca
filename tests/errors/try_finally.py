"""`try` without handlers: nothing of it is left in the instructions of the kernel."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    try:
        tl.store(x, n)
    finally:
        tl.store(x + 1, n)
