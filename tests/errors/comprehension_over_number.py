"""A comprehension over a number."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32"}


@tw.jit
def kernel(x):
    values = [i + 1 for i in 3]
    tl.store(x, values[0])
