"""Coalesce asynchronous copies: threads read as many neighbours of a tile as they can write to shared memory at once.

    %c = ttg.async_copy_global_to_local %p, %buffer        sizePerThread = [1, 16], but #shared moves groups of 8

    %q = ttg.convert_layout %p : … -> tensor<…, #blocked1>                          sizePerThread = [1, 8]
    %c = ttg.async_copy_global_to_local %q, %buffer

A copy reads and writes in one instruction; a thread with more neighbours than one instruction writes would read in two,
and the lanes of a warp no longer read one row. Copies of small tiles, whose layout their users chose, get the layout
that suits memory best: nobody sees it.
"""

from __future__ import annotations

from tilewright.analysis.axis_info import analyze_axis_info
from tilewright.dialects.ttg_async import AsyncCopyGlobalToLocal
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, buffer_type, tile_type
from tilewright.ir.types import TensorType, i32
from tilewright.layouts.blocked import fill_cta
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Blocked, Encoding, SwizzledShared, encoding
from tilewright.layouts.memory_access import vector_of
from tilewright.layouts.queries import contiguous_per_thread, order
from tilewright.transforms.gpu.coalesce import Accesses
from tilewright.transforms.gpu.relayout import convert_operand, layout_of
from tilewright.transforms.gpu.workers import workers_of

SMALLEST_CHEAP_ELEMENT = 32
"""Min size of an element, in bits, to be copied alone; smaller ones need neighbours to make a copy of four bytes."""


def coalesce_async_copy(module: Op) -> bool:
    """Choose layouts for the asynchronous copies of `module`."""
    copies = [op for op in module.walk() if isinstance(op, AsyncCopyGlobalToLocal)]
    if not copies:
        return False
    accesses = Accesses(analyze_axis_info(module), module)
    chosen = {op: _layout(op, accesses) for op in copies}
    widths = {op: _contiguity(op, layout, accesses) for op, layout in chosen.items()}
    changed = False
    for op, layout in chosen.items():
        if layout is not layout_of(op.pointer):
            _relayout(op, layout, widths[op])
            changed = True
    return changed


def _layout(copy: AsyncCopyGlobalToLocal, accesses: Accesses) -> Encoding:
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


def _relayout(copy: AsyncCopyGlobalToLocal, layout: Encoding, contiguity: int) -> None:
    for index, value in enumerate(copy.operands):
        if isinstance(value.type, TensorType):
            convert_operand(copy, index, layout)
    copy.attributes = {**copy.attributes, "contiguity": Number(contiguity, i32)}
