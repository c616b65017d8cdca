"""`try` has no meaning in a kernel."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def kernel(x):
    try:
        tl.store(x, 0.0)
    except ValueError:
        pass
