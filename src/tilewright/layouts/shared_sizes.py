"""The number of elements that a buffer in shared memory takes, holes included.

padded_elements(#ttg.padded_shared<[256:+8] {…}>, (16, 32))     520: 512 elements, and 8 after the first 256
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.layouts.encoding import Encoding
from tilewright.layouts.queries import shape_per_cta
from tilewright.layouts.shared import NvmmaShared, PaddedShared, PartitionedShared


def stored_shape(layout: Encoding, shape: Sequence[int]) -> tuple[int, ...]:
    """The extents of one CTA's part of a buffer as it is stored; leading dimensions may be copies of a buffer."""
    extents = list(shape)
    if isinstance(layout, NvmmaShared) and layout.fp4_padded:
        extents[0 if layout.transposed else -1] *= 2
    return shape_per_cta(layout, extents)


def padded_elements(layout: Encoding, shape: Sequence[int]) -> int:
    """The elements of a buffer with holes, up to the last one that is used; 0 for layouts without holes."""
    if isinstance(layout, PartitionedShared):
        return padded_elements(layout.partition_layout, shape)
    if not isinstance(layout, PaddedShared):
        return 0
    elements = prod(shape_per_cta(layout, shape))
    # No hole follows the last element.
    return elements + sum((elements - 1) // interval * padding for interval, padding in layout.pads)
