"""The layouts of views of buffers, for which nothing has to move.

reshaped_buffer(nvmma, (32, 1, 4, 64), (128, 64))      # nvmma again, where rows stay whole; else #ttg.shared_linear
transposed_from(layout, (64, 32), (1, 0))              # what, transposed, has `layout`
contiguous_offsets(layout, (2, 512))                   # 1024: as many elements follow each other in memory and tile
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Encoding, Shared
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.inference import inverse, transposed
from tilewright.layouts.queries import num_ctas
from tilewright.layouts.shared import NvmmaShared, PaddedShared, SharedLinear
from tilewright.layouts.walk import dimension_names

Shape = tuple[int, ...]


@cache
def reshaped_buffer(layout: Shared, shape: Shape, result: Shape) -> Shared:
    """The layout of a buffer of `shape` that is seen as one of shape `result`.

    Raises:
        LayoutError: the layout has no linear layout for this shape.
    """
    outs = tuple(zip(dimension_names(len(result)), result, strict=True))
    found = to_linear_layout(layout, shape).reshape_outs(outs)
    if isinstance(layout, PaddedShared):
        return PaddedShared(layout.pads, found.bases["offset"], found.bases["block"])
    if isinstance(layout, NvmmaShared) and num_ctas(layout) == 1:
        inner = 0 if layout.transposed else -1
        again = _with_rank(layout, len(result))
        if shape[inner] == result[inner] and _linear(again, result) == found:
            return again
    return SharedLinear(found.bases["offset"], found.bases["block"], layout.alignment)


def _with_rank(layout: NvmmaShared, rank: int) -> NvmmaShared:
    return NvmmaShared(
        layout.swizzling_byte_width, layout.transposed, layout.element_bit_width, layout.fp4_padded, rank
    )


def _linear(layout: Shared, shape: Shape) -> object:
    """The linear layout; None where there is none."""
    try:
        return to_linear_layout(layout, shape)
    except LayoutError:
        return None


def transposed_from(layout: Encoding, shape: Shape, axes: Sequence[int]) -> Encoding:
    """The layout of a buffer that, transposed by `axes`, has `layout` and `shape`."""
    return transposed(layout, shape, inverse(axes))


@cache
def contiguous_offsets(layout: Shared, shape: Shape) -> int:
    """The number of elements that follow each other both in memory and in the tile, row by row."""
    demand(not isinstance(layout, PaddedShared), "padded elements do not follow each other")
    columns = to_linear_layout(layout, shape).columns["offset"]
    count = 0
    while count < len(columns) and columns[count] == 1 << count:
        count += 1
    return 1 << count
