"""An ordinary global."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}
FACTOR = 3.0


def kernel(x):
    tl.store(x, tl.load(x) * FACTOR)
