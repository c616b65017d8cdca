"""A class of plain Python."""

from enum import Enum

import tilewright as tw
import tilewright.language as tl

SIGNATURE = {"x": "*i32"}


class Kind(Enum):
    """A plain class with one value."""

    PLAIN = 1


@tw.jit
def kernel(x):
    tl.store(x, Kind.PLAIN.value)
