"""`match` with patterns that are more than numbers."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    match (n, 1):
        case (first, 1):
            tl.store(x, first)
        case _:
            tl.store(x, 0)
