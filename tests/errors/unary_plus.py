"""A sign that does nothing."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    tl.store(x, +tl.load(x))
