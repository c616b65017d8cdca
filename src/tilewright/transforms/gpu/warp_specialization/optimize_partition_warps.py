"""The numbers of warps and registers of partitions, as small as their tiles permit.

    partition0(%a: i32) num_warps(8) { … numbers … }            num_warps(1)     24 registers
    partition1(%d: …) num_warps(8) { copies by descriptor }     num_warps(2)     24
    partition2() num_warps(8) { 128 x 64 values of 32 bits }    num_warps(4)     24 + 64

A partition with tiles loses half of its warps as long as a thread then has at most 64 registers of any tile: blocked
layouts lose half of the warps of their slowest dimension. Partitions with other layouts keep their warps, and so do
those whose threads arrive at a barrier one by one. Tensor memory requires four warps or more.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.dialects.tt_function import Call
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize
from tilewright.dialects.ttng_barriers import AsyncCopyMbarrierArrive
from tilewright.dialects.ttng_descriptors import DescriptorCopy
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.attributes import Attribute, Dense, DenseArray, Number
from tilewright.ir.core import Op, Region, Value
from tilewright.ir.types import PointerType, TensorType, Type, i32
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.distributed import Blocked, Slice
from tilewright.layouts.encodings import Distributed, Encoding
from tilewright.transforms.gpu.tile_ops import layout_of_type, with_layout

WITHOUT_TILES = 24
"""The number of registers that a thread needs besides those of tiles."""
AHEAD = 16
"""The number of further registers of a thread that starts several products, some of them ahead of the others."""
MAX_OF_A_TILE = 64
"""Max number of registers that one tile may take of a thread when warps are saved."""
STEP = 8
"""Threads get multiples of this number of registers."""
COPYING_WARPS, TENSOR_MEMORY_WARPS = 2, 4
"""The least numbers of warps that issue copies by descriptor, and that read tensor memory."""
FIXED = (AsyncCopyMbarrierArrive, Call)
"""Ops for which threads or layouts are as they must be."""


def optimize_partition_warps(module: Op) -> bool:
    """Give the partitions of `module` the warps and registers that they need."""
    ops = [op for op in module.walk() if isinstance(op, WarpSpecialize)]
    for op in ops:
        regions = op.partitions.regions
        warps = [_shrink(region, count) for region, count in zip(regions, op.partition_warps, strict=True)]
        arrays = {"partitionNumWarps": warps, "requestedRegisters": [_registers(region) for region in regions]}
        op.attributes = {**op.attributes, **{key: DenseArray(i32, tuple(values)) for key, values in arrays.items()}}
    return bool(ops)


def _ops(region: Region) -> Iterator[Op]:
    for block in region.blocks:
        for op in block:
            yield from op.walk()


def _values(region: Region) -> Iterator[Value]:
    for op in _ops(region):
        yield from op.results
        for inner in op.regions:
            for block in inner.blocks:
                yield from block.args


def _tiles(region: Region) -> set[TensorType]:
    return {value.type for value in _values(region) if isinstance(value.type, TensorType)}


def _largest(region: Region) -> int:
    """The number of registers of a thread that the largest tile takes; of pointers, most are made when needed."""
    return max((registers_of(tile) for tile in _tiles(region)), default=0)


def registers_of(tile: TensorType) -> int:
    """The number of registers of a thread that `tile` takes."""
    bits = 32 if isinstance(tile.element, PointerType) else tile.bits
    return -(-to_linear_layout(layout_of_type(tile), tile.shape).in_size("register") * bits // 32)


def _registers(region: Region) -> int:
    """The number of registers that a thread gets: those that tensor memory is read to are all needed at once."""
    read = (op.results[0].type for op in _ops(region) if isinstance(op, TmemLoad))
    whole = max((registers_of(tile) for tile in read if isinstance(tile, TensorType)), default=0)
    products = sum(isinstance(op, TensorCoreMma) for op in _ops(region))
    return WITHOUT_TILES + -(-max(min(_largest(region), MAX_OF_A_TILE), whole, AHEAD * (products > 1)) // STEP) * STEP


# --- warps ------------------------------------------------------------------------------------------------------------


def _shrink(region: Region, warps: int) -> int:
    """Take from the partition `region` the warps that it does not need; returns how many are left."""
    least = _least_warps(region)
    while warps > least and _fits_half(region):
        _halve_tiles(region)
        warps //= 2
    return warps


def _least_warps(region: Region) -> int:
    ops = list(_ops(region))
    if any(isinstance(op, (TmemLoad, TmemStore)) or (isinstance(op, TmemAlloc) and op.operands) for op in ops):
        return TENSOR_MEMORY_WARPS
    return COPYING_WARPS if any(isinstance(op, DescriptorCopy) for op in ops) else 1


def _fits_half(region: Region) -> bool:
    """Whether half of the warps can hold all tiles of the partition."""
    if any(isinstance(op, FIXED) for op in _ops(region)):
        return False
    halves = [_halved(tile) for tile in _tiles(region)]
    return all(half is not None and registers_of(half) <= MAX_OF_A_TILE for half in halves)


def _halved(tile: TensorType) -> TensorType | None:
    layout = _with_half(layout_of_type(tile))
    return None if layout is None else with_layout(tile, layout)


def _with_half(layout: Encoding) -> Distributed | None:
    """The layout for half of the warps; None if it is not known."""
    if isinstance(layout, Slice):
        parent = _with_half(layout.parent)
        return None if parent is None else Slice(layout.dim, parent)
    if not isinstance(layout, Blocked):
        return None
    dim = next((dim for dim in reversed(layout.order) if layout.warps_per_cta[dim] > 1), None)
    if dim is None:
        return None
    warps = (count // 2 if at == dim else count for at, count in enumerate(layout.warps_per_cta))
    return Blocked(layout.size_per_thread, layout.threads_per_warp, tuple(warps), layout.order, layout.cga)


def _halve_tiles(region: Region) -> None:
    """Let half of the warps hold all tiles of the partition."""
    for value in _values(region):
        value.type = _halved_type(value.type)
    for op in _ops(region):
        op.attributes = {name: _halved_constant(value) for name, value in op.attributes.items()}


def _halved_type(type: Type) -> Type:
    """The type for half of the warps; lists of numbers in attributes (`tt.divisibility`) are no tiles."""
    return (_halved(type) or type) if isinstance(type, TensorType) and type.encoding else type


def _halved_constant(value: Attribute) -> Attribute:
    return value._replace(type=_halved_type(value.type)) if isinstance(value, (Number, Dense)) else value
