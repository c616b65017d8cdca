"""An ordinary global."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}
FACTOR = 3.0


@tw.jit
def kernel(x):
    tl.store(x, tl.load(x) * FACTOR)
