"""Coalesce: loads, stores and atomics get the layout that makes the fewest memory transactions.

    %v = tt.load %p : tensor<64x64x!tt.ptr<f16>, #blocked>          (rows of 64 elements that count up, 16-byte aligned)

    %q = ttg.convert_layout %p : … -> tensor<64x64x!tt.ptr<f16>, #blocked1>     sizePerThread = [1, 8], order = [1, 0]
    %w = tt.load %q : tensor<64x64x!tt.ptr<f16>, #blocked1>
    %v = ttg.convert_layout %w : tensor<64x64xf16, #blocked1> -> tensor<64x64xf16, #blocked>

Threads are laid out along the axis with the longest contiguous groups, and each takes as many neighbours as one
instruction can access: 16 bytes, if alignment permits. Accesses of tiles with one shape that depend on each other
should have the same layout, so each takes the largest number among them; only loads may exceed the size of one
instruction.

In `coalesce_async_copy`, each thread reads as many neighbours of a tile as it can write to shared memory at once.

    %c = ttg.async_copy_global_to_local %p, %buffer        sizePerThread = [1, 16], but #shared moves groups of 8

    %q = ttg.convert_layout %p : … -> tensor<…, #blocked1>                          sizePerThread = [1, 8]
    %c = ttg.async_copy_global_to_local %q, %buffer

A copy reads and writes in one instruction; a thread with more neighbours than one instruction writes would need two
reads, and the lanes of a warp would no longer read one row. Copies of small tiles, whose layout their users chose, get
the layout that is best for memory accesses, since no other op sees it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from math import prod
from typing import TypeGuard

from tilewright.analysis.axis_info import AxisInfo, analyze_axis_info
from tilewright.analysis.value_flow import reachable
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
from tilewright.dialects.tt_descriptors import DescriptorRead, DescriptorWrite, RowAccess
from tilewright.dialects.tt_memory import Load, pointee_type
from tilewright.dialects.ttg_async import AsyncCopyGlobalToLocal
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, buffer_type, tile_type
from tilewright.ir.types import FloatType, TensorType, f64, i32
from tilewright.layouts.blocked import Workers, fill_cta
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Blocked, Encoding, SwizzledShared, encoding
from tilewright.layouts.memory_access import vector_of
from tilewright.layouts.queries import cga_layout, contiguous_per_thread, order
from tilewright.layouts.walk import shape_of_block
from tilewright.transforms.gpu.tile_ops import (
    capability_of,
    layout_of,
    layout_of_type,
    relayout,
    target_of,
    workers_of,
)

WIDEST_ACCESS = 128
"""Max width of one access, in bits."""


def coalesce(module: Op) -> bool:
    """Choose layouts for all memory accesses of `module`."""
    facts = analyze_axis_info(module)
    accesses = Accesses(facts, module)
    chosen: dict[Op, Blocked] = {}
    for op in module.walk():
        if is_tile_access(op):
            chosen[op] = accesses.layout(op)
        elif (tile := descriptor_tile(op)) is not None:
            chosen[op] = descriptor_layout(tile, workers_of(op))
    for op, layout in chosen.items():
        rows = op.rows if isinstance(op, RowAccess) else None  # they have a layout of their own
        relayout(op, layout, but=rows)
    return bool(chosen)


def is_tile_access(op: Op) -> TypeGuard[PointerAccess]:
    """Whether `op` accesses memory through a tile of pointers."""
    return isinstance(op, PointerAccess) and op.pointer.type.shape is not None


# --- pointers -----------------------------------------------------------------------------------------------------


def order_of(info: AxisInfo) -> tuple[int, ...]:
    """The axes, those with the longest contiguous groups first; row-major where they are equal."""
    return tuple(sorted(range(len(info.contiguity)), key=lambda axis: (-info.contiguity[axis], -axis)))


class Accesses:
    """The memory accesses of a module; `facts` is the axis info of the pointers."""

    def __init__(self, facts: Mapping[Value, AxisInfo], module: Op) -> None:
        self.facts = facts
        self.module = module
        self._alike: dict[tuple[object, ...], list[PointerAccess]] = {}
        for op in module.walk():
            if is_tile_access(op):
                self._alike.setdefault(self._kind(op), []).append(op)

    def layout(self, op: PointerAccess) -> Blocked:
        """The layout for the access `op`."""
        pointer = op.pointer
        shape, cga = pointer.type.shape, cga_layout(layout_of(pointer))
        assert shape is not None, "a tile of pointers"
        order, workers = order_of(self.facts[pointer]), workers_of(op)
        extents = shape_of_block(shape, cga)
        own = self.elements_per_thread(op, extents)
        count = max([own, *(self.elements_per_thread(other, extents) for other in self._partners(op))])
        count = min(count, max(1, prod(extents) // (workers.warps * workers.lanes)))
        if not isinstance(op, Load):
            count = min(count, own)
        sizes = tuple(count if axis == order[0] else 1 for axis in range(len(shape)))
        return fill_cta(shape, sizes, order, workers, cga)

    def elements_per_thread(self, op: PointerAccess, extents: tuple[int, ...]) -> int:
        """The number of elements along the fastest axis that one instruction of `op` can access."""
        axis = order_of(self.facts[op.pointer])[0]
        return min(self.aligned_elements(op, axis), extents[axis], self._most(op, element_bits(op)))

    def aligned_elements(self, op: PointerAccess, axis: int) -> int:
        """The number of neighbours along `axis` whose first one lies where an access of all of them may start."""
        info = self.facts[op.pointer]
        aligned = max(1, info.divisibility[axis] // max(1, element_bits(op) // 8))
        return min(aligned, info.contiguity[axis])

    def _most(self, op: PointerAccess, bits: int) -> int:
        limit = WIDEST_ACCESS // bits
        atomic = atomic_elements(op, self.module)
        return limit if atomic is None else min(limit, atomic)

    def _kind(self, op: PointerAccess) -> tuple[object, ...]:
        return op.pointer.type.shape, order_of(self.facts[op.pointer])

    def _partners(self, op: PointerAccess) -> list[PointerAccess]:
        """Accesses of the same shape and order that what `op` computes with flows into, or comes from."""
        alike = self._alike[self._kind(op)]
        if len(alike) == 1 or op.pointer.op is None:
            return []
        connected = connected_ops(op)
        return [other for other in alike if other in connected and other is not op]


def element_bits(op: PointerAccess) -> int:
    """The width of what the pointers of the access `op` point to."""
    return pointee_type(op.pointer.type).bits


def atomic_elements(op: PointerAccess, module: Op) -> int | None:
    """Max number of elements that an atomic instruction updates; None: as many as a store writes."""
    if isinstance(op, AtomicCas):
        return 1
    if not isinstance(op, AtomicRmw):
        return None
    element = op.value.type.scalar
    if not isinstance(element, FloatType) or element is f64:
        return 1
    if target_of(module).startswith("hip:"):
        return max(1, 32 // element.bits)
    if op.operation != "fadd" or capability_of(module) not in range(1, 90):
        return None
    return {"f32": 1, "bf16": 1, "f16": 2}.get(element.text)


def connected_ops(op: Op) -> Container[Op]:
    """All ops that values flow between, directly or not, starting at `op`; arguments of functions connect nothing."""
    return reachable([op], _neighbours)


def _neighbours(op: Op) -> Iterator[Op]:
    for value in op.operands:
        owner = value.owner
        if isinstance(owner, Op):
            yield owner
        elif owner.region is not None and (parent := owner.region.op) is not None and not parent.definition.isolated:
            yield parent
    for value in op.results:
        yield from value.uses
    for region in op.regions:
        for block in region.blocks:
            yield from block


# --- descriptors --------------------------------------------------------------------------------------------------


def descriptor_tile(op: Op) -> TensorType | None:
    """The tile that `op` reads or writes through a descriptor."""
    type = None
    if isinstance(op, DescriptorRead):
        type = op.result.type
    elif isinstance(op, DescriptorWrite):
        type = op.value.type
    return type if isinstance(type, TensorType) else None


def descriptor_layout(tile: TensorType, workers: Workers) -> Blocked:
    """A row-major layout, with as many neighbours per thread as one access to shared memory takes."""
    cga = cga_layout(layout_of_type(tile))
    share = prod(shape_of_block(tile.shape, cga)) // (workers.warps * workers.lanes)
    count = min(max(1, share), WIDEST_ACCESS // tile.bits)
    rank = len(tile.shape)
    return fill_cta(tile.shape, (*(1,) * (rank - 1), count), tuple(reversed(range(rank))), workers, cga)


SMALLEST_CHEAP_ELEMENT = 32
"""Min size of an element, in bits, to be copied alone; smaller ones need neighbours to make a copy of four bytes."""


def coalesce_async_copy(module: Op) -> bool:
    """Choose layouts for the asynchronous copies of `module`."""
    copies = [op for op in module.walk() if isinstance(op, AsyncCopyGlobalToLocal)]
    if not copies:
        return False
    accesses = Accesses(analyze_axis_info(module), module)
    chosen = {op: _layout_of_copy(op, accesses) for op in copies}
    widths = {op: _contiguity(op, layout, accesses) for op, layout in chosen.items()}
    changed = False
    for op, layout in chosen.items():
        if layout is not layout_of(op.pointer):
            _relayout_copy(op, layout, widths[op])
            changed = True
    return changed


def _layout_of_copy(copy: AsyncCopyGlobalToLocal, accesses: Accesses) -> Encoding:
    tile, buffer = tile_type(copy.pointer), buffer_type(copy.buffer)
    workers = workers_of(copy)
    layout = layout_of(copy.pointer)
    if tile.numel < workers.warps * workers.lanes and buffer.element.bits >= SMALLEST_CHEAP_ELEMENT:
        layout = accesses.layout(copy)
    memory = encoding(buffer.encoding)
    if not isinstance(layout, Blocked) or not isinstance(memory, SwizzledShared):
        return layout
    registers, offsets = to_linear_layout(layout, tile.shape), to_linear_layout(memory, tile.shape)
    width = vector_of(registers, offsets, buffer.element.bits, most=tile.numel).width
    sizes, fastest = list(contiguous_per_thread(layout, tile.shape)), layout.order[0]
    if sizes[fastest] <= width:
        return layout
    sizes[fastest] = width
    return fill_cta(tile.shape, sizes, layout.order, workers, layout.cga)


def _contiguity(copy: AsyncCopyGlobalToLocal, layout: Encoding, accesses: Accesses) -> int:
    """Max number of elements per instruction of the copy, as far as pointers and mask are known."""
    pointer, mask = copy.pointer, copy.mask
    if not isinstance(layout, Blocked):
        return 1
    shape = pointer.type.shape or ()
    axis = order(layout, shape)[0]
    count = min(accesses.aligned_elements(copy, axis), contiguous_per_thread(layout, shape)[axis])
    return count if mask is None else min(count, accesses.facts[mask].constancy[axis])


def _relayout_copy(copy: AsyncCopyGlobalToLocal, layout: Encoding, contiguity: int) -> None:
    relayout(copy, layout)
    copy.attributes = {**copy.attributes, "contiguity": Number(contiguity, i32)}
