"""A hint for the compiler that it cannot know."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    for i in tl.range(0, n, num_stages=n):
        tl.store(x + i, i)
