"""The kernel that docs/follow-a-kernel.md follows."""

import tilewright as tw
import tilewright.language as tl


@tw.jit
def row_start(ptr, row, columns):
    return ptr + row * columns


@tw.jit
def center(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(row_start(x_ptr, row, columns) + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    tl.store(row_start(out_ptr, row, columns) + column, x - mean, mask=inside)
