"""Two tiles whose shapes do not broadcast, inside a helper."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


@tw.jit
def total(a, b):
    return a + b


@tw.jit
def kernel(x):
    rows = tl.load(x + tl.arange(0, 16))
    columns = tl.load(x + tl.arange(0, 32))
    tl.store(x + tl.arange(0, 16), total(rows, columns))
