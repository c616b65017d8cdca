"""The size of the shared memory that an op needs while it runs, in bytes.

tt.reduce over warps: the partial results of every warp
ttg.convert_layout between warps: the elements that change their warp
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

from tilewright.analysis.gather_distance import stays_in_warp
from tilewright.analysis.reduction_plan import WARP, gather_bytes, planned_bytes, reduction_bytes, scan_bytes
from tilewright.dialects.tt_reduce import Fold, Reduce
from tilewright.dialects.tt_shape import Gather, Histogram
from tilewright.dialects.ttg_attributes import SHARED_MEMORY
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, partitions_of
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import MemDescType, PointerType, TensorDescType, TensorType, Type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Distributed, encoding_as
from tilewright.layouts.movement import needs_shared_memory
from tilewright.layouts.queries import shape_per_cta
from tilewright.layouts.swizzle import scratch_elements

TENSORMAP = 128
"""Bytes of a tensor map, the hardware's form of a tensor descriptor."""
STMATRIX_SINCE, LDMATRIX_SINCE = 90, 75
"""The first compute capabilities that have these instructions."""


def scratch_bytes(op: Op, capability: int = 0) -> int:
    """The bytes of shared memory that `op` needs for itself; 0 is a device without instructions for matrices."""
    if isinstance(op, ConvertLayout):
        return _of_conversion(op, stores=capability >= STMATRIX_SINCE, loads=capability >= LDMATRIX_SINCE)
    if isinstance(op, Reduce) and capability:
        layout, type = layout_of(op.sources[0])
        return planned_bytes(op, to_linear_layout(layout, type.shape), op.axis, capability)
    size = SIZES.get(op.name)
    return size(op) if size is not None else 0


def scratch_bytes_on(capability: int) -> Callable[[Op], int]:
    """`scratch_bytes` for one device."""
    return partial(scratch_bytes, capability=capability)


def layout_of(value: Value) -> tuple[Distributed, TensorType]:
    """The layout and the type of a tile."""
    type = tile_type(value)
    return encoding_as(Distributed, type.encoding), type


def width(type: Type) -> int:
    """The bits that an element takes in shared memory."""
    return max(8, type.scalar.bits)


def _of_conversion(op: ConvertLayout, *, stores: bool, loads: bool) -> int:
    (source, before), (result, _) = layout_of(op.source), layout_of(op.result)
    if not needs_shared_memory(source, result, before.shape):
        return 0
    bits = width(before)
    return scratch_elements(source, result, before.shape, bits, stores=stores, loads=loads) * bits // 8


def _along_axis(op: Fold, size: Callable[[Distributed, tuple[int, ...], int, list[int]], int]) -> int:
    layout, type = layout_of(op.sources[0])
    return size(layout, type.shape, op.axis, [width(value.type) for value in op.sources])


def _of_gather(op: Gather) -> int:
    if stays_in_warp(op):
        return 0
    (source, type), (indices, index_type) = layout_of(op.source), layout_of(op.indices)
    return gather_bytes(source, type.shape, indices, index_type.shape, op.axis, width(type))


def _of_histogram(op: Histogram) -> int:
    _, type = layout_of(op.result)
    return max(type.numel, WARP) * type.bits // 8


def _of_atomic(op: Op) -> int:
    """The bytes for an atomic: one thread does it for an element that several hold, and passes on the old value."""
    result = op.result
    if not result.uses:
        return 0
    if not isinstance(result.type, TensorType):
        return width(result.type) // 8
    layout, type = layout_of(result)
    if not any(to_linear_layout(layout, type.shape).free_masks().values()):
        return 0
    return prod(shape_per_cta(layout, type.shape)) * width(type) // 8


def _of_captures(op: WarpSpecialize) -> int:
    """The size of what the partitions of a `ttg.warp_specialize` are given, packed without holes."""
    return sum(captured_bytes(value.type) for value in partitions_of(op).captures)


def captured_bytes(type: Type) -> int:
    """The bytes of one captured value: a view of shared memory is its address and an offset per dimension."""
    if isinstance(type, (PointerType, TensorDescType)):
        return 8
    if isinstance(type, MemDescType):
        return 8 + 4 * len(type.shape) if type.space == SHARED_MEMORY else 8
    return -(-type.bits // 8)


SIZES: Mapping[str, Callable[[Any], int]] = {
    "tt.reduce": lambda op: _along_axis(op, reduction_bytes),
    "tt.scan": lambda op: _along_axis(op, scan_bytes),
    "tt.gather": _of_gather,
    "tt.histogram": _of_histogram,
    "tt.atomic_rmw": _of_atomic,
    "tt.atomic_cas": _of_atomic,
    "ttg.local_atomic_scatter_rmw": _of_atomic,
    "ttg.warp_specialize": _of_captures,
    "ttng.tensormap_create": lambda op: TENSORMAP,
}
"""Bytes of scratch memory per kind of op, but for conversions between layouts, which depend on the device."""
