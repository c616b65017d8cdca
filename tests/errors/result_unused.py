"""A block pointer that is moved, and not kept."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def kernel(x):
    block = tl.make_block_ptr(x, (64,), (1,), (0,), (16,), (0,))
    tl.advance(block, (16,))
    tl.store(block, tl.load(block))
