"""A number of NumPy as a constant."""

import numpy as np

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x, BLOCK: tl.constexpr = np.int64(4)):
    tl.store(x + tl.program_id(0) * BLOCK, 1.0)
