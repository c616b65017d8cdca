"""Every layout as a linear layout: from register, lane, warp and block (or offset, or row and col) to the tile.

layout = encoding("#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>")
to_linear_layout(layout, (256,)).apply(register=5, lane=1)     # (133,)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tilewright.ir.errors import counted
from tilewright.layouts.distributed import (
    AmdMfma,
    AmdWmma,
    Blocked,
    DotOperand,
    GenericLinear,
    Linear,
    NvidiaMma,
    Slice,
)
from tilewright.layouts.encoding import Encoding
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.keys import power_of_two
from tilewright.layouts.linear_layout import LinearLayout, identity_1d
from tilewright.layouts.register_layouts import (
    blocked_layout,
    blocked_operand_layout,
    linear_layout,
    mfma_layout,
    mfma_operand_layout,
    nvidia_mma_layout,
    nvidia_operand_layout,
    wmma_layout,
    wmma_operand_layout,
)
from tilewright.layouts.shared import (
    AmdRotatingShared,
    NvmmaShared,
    PaddedShared,
    PartitionedShared,
    SharedLinear,
    SwizzledShared,
    TensorMemory,
    TensorMemoryScales,
)
from tilewright.layouts.shared_layouts import nvmma_layout, padded_layout, shared_linear_layout, swizzled_layout
from tilewright.layouts.tensor_memory import scales_layout, tensor_memory_layout
from tilewright.layouts.walk import dimension_names, shown

Shape = tuple[int, ...]


def slice_layout(layout: Slice, shape: Shape) -> LinearLayout:
    """The parent's layout of a tile that is one wide in `dim`; registers that hold copies go away."""
    dim = layout.dim
    parent = to_linear_layout(layout.parent, (*shape[:dim], 1, *shape[dim:]))
    # The dimension has no bits, so the columns stay as they are.
    outs = tuple(zip(dimension_names(len(shape)), shape, strict=True))
    return LinearLayout(parent.columns, outs).without_zeros("register")


def partitioned_layout(layout: PartitionedShared, shape: Shape) -> LinearLayout:
    axis = layout.partition_dim
    pieces = layout.num_partitions * layout.num_groups
    demand(shape[axis] >= pieces, f"{pieces} pieces of dimension {axis}, but its extent is {shape[axis]}")
    piece = tuple(size // pieces if dim == axis else size for dim, size in enumerate(shape))
    base = to_linear_layout(layout.partition_layout, piece)
    name = dimension_names(len(shape))[axis]
    parts = identity_1d(layout.num_partitions, "partition", name)
    groups = identity_1d(layout.num_groups, "offset", name)
    return base * parts * groups


def operand_layout(layout: DotOperand, shape: Shape) -> LinearLayout:
    """An operand of a dot, by the kind of the dot's result."""
    return _OPERANDS[type(layout.parent)](layout, layout.parent, shape)


_OPERANDS: dict[type[Encoding], Callable[[DotOperand, Any, Shape], LinearLayout]] = {
    Blocked: blocked_operand_layout,
    NvidiaMma: nvidia_operand_layout,
    AmdMfma: mfma_operand_layout,
    AmdWmma: wmma_operand_layout,
}
_LAYOUTS: dict[type[Encoding], Callable[[Any, Shape], LinearLayout]] = {
    Blocked: blocked_layout,
    Slice: slice_layout,
    DotOperand: operand_layout,
    NvidiaMma: nvidia_mma_layout,
    AmdMfma: mfma_layout,
    AmdWmma: wmma_layout,
    Linear: linear_layout,
    GenericLinear: linear_layout,
    SwizzledShared: swizzled_layout,
    AmdRotatingShared: swizzled_layout,
    NvmmaShared: nvmma_layout,
    PaddedShared: padded_layout,
    PartitionedShared: partitioned_layout,
    SharedLinear: shared_linear_layout,
    TensorMemory: tensor_memory_layout,
    TensorMemoryScales: scales_layout,
}


@cache
def to_linear_layout(layout: Encoding, shape: Shape) -> LinearLayout:
    """The map from each register of each thread (or each offset in memory) to its place in a tile of `shape`.

    Raises:
        LayoutError: the layout does not fit the shape, or its kind has no linear layout.
    """
    demand(shape and all(map(power_of_two, shape)), f"every extent must be a power of two, not {shown(shape)}")
    demand(
        len(shape) == layout.rank,
        f"#{layout.name} is for {counted(layout.rank, 'dimension')}, but the shape {shown(shape)} has {len(shape)}",
    )
    convert = _LAYOUTS.get(type(layout))
    if convert is None:
        raise LayoutError(f"#{layout.name} has no linear layout")
    found = convert(layout, shape)
    demand(found.is_surjective, f"{layout.text} leaves elements of {shown(shape)} without a place")
    return found
