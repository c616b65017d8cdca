"""A store through a pointer to const."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*kfp32"}


@tw.jit
def kernel(x):
    tl.store(x, 0.0)
