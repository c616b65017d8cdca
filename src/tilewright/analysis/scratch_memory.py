"""How much shared memory an op needs while it runs, in bytes.

tt.reduce over warps: the partial results of every warp
ttg.convert_layout between warps: the elements that change their warp
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from tilewright.dialects.ttg_attributes import SHARED_MEMORY
from tilewright.dialects.ttg_warp_specialize import partitions_of
from tilewright.ir.core import Op
from tilewright.ir.types import MemDescType, PointerType, TensorDescType, TensorType, Type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import encoding
from tilewright.layouts.queries import shape_per_cta

TENSORMAP = 128
"""Bytes of a tensor map, the hardware's form of a tensor descriptor."""
WARP = 32
"""Lanes of a warp."""


def scratch_bytes(op: Op) -> int:
    """The bytes of shared memory that `op` needs for itself."""
    size = SIZES.get(op.name)
    return size(op) if size is not None else 0


def _of_histogram(op: Op) -> int:
    result = op.results[0].type
    assert isinstance(result, TensorType), "a histogram is a tile"
    return max(result.numel, WARP) * result.bits // 8


def _of_atomic(op: Op) -> int:
    """One thread does the atomic of an element that several hold, and tells the others what it found."""
    result = op.results[0]
    if not result.uses:
        return 0
    type = result.type
    if not isinstance(type, TensorType):
        return max(8, type.bits) // 8
    assert type.encoding is not None, "tiles of TTGIR have layouts"
    layout = encoding(type.encoding)
    if not any(to_linear_layout(layout, type.shape).free_masks().values()):
        return 0
    return prod(shape_per_cta(layout, type.shape)) * max(8, type.bits) // 8


def _of_captures(op: Op) -> int:
    """What the partitions of a `ttg.warp_specialize` are given, packed without holes."""
    return sum(captured_bytes(value.type) for value in partitions_of(op).operands)


def captured_bytes(type: Type) -> int:
    """The bytes of one captured value: a view of shared memory is its address and an offset per dimension."""
    if isinstance(type, PointerType | TensorDescType):
        return 8
    if isinstance(type, MemDescType):
        return 8 + 4 * len(type.shape) if type.space == SHARED_MEMORY else 8
    return -(-type.bits // 8)


SIZES: Mapping[str, Callable[[Op], int]] = {
    "tt.histogram": _of_histogram,
    "tt.atomic_rmw": _of_atomic,
    "tt.atomic_cas": _of_atomic,
    "ttg.local_atomic_scatter_rmw": _of_atomic,
    "ttg.warp_specialize": _of_captures,
    "ttng.tensormap_create": lambda op: TENSORMAP,
}
