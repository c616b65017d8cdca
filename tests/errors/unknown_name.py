"""A misspelled variable."""

import tilewright.language as tl

SIGNATURE = {"x": "*fp32"}


def kernel(x):
    offsets = tl.arange(0, 16)
    tl.store(x + offsets, ofsets)
