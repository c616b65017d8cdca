"""A dict."""

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32", "n": "i32"}


@tw.jit
def kernel(x, n):
    values = {"n": n}
    tl.store(x, values["n"])
