"""Operands of matrix instructions in shared memory.

in_shared_memory(b, 1, any_order=True)     %m = ttg.local_alloc %b : … -> !ttg.memdesc<64x64xf16, #nvmma_shared, #smem>

The buffer has the order of the operand's registers if the instruction can read any order, else the order that it
requires. The layout in which the operand was loaded counts, not the one to which it was converted.
"""

from __future__ import annotations

from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_shape import Reshape, Trans
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.blocked import fill_cta
from tilewright.layouts.encodings import Blocked, NvmmaShared
from tilewright.layouts.keys import Bases
from tilewright.layouts.queries import cga_layout, memory_order
from tilewright.layouts.shared_choice import nvmma_for
from tilewright.transforms.gpu.tile_ops import (
    converted_after,
    distributed_of,
    layout_of,
    put_after,
    workers_of,
)

LOADS = (Load, DescriptorRead)
INNER_FIRST = ((1, 0), (0, 1))
"""The order of the dimensions of each operand in which K changes fastest."""


def comes_from_load(value: Value) -> bool:
    """Whether an operand is read from memory as it is, conversions and transpositions aside."""
    while isinstance(op := value.op, (ConvertLayout, Trans)):
        value = op.source
    return op is None or isinstance(op, LOADS)


def before_conversions(value: Value) -> Value:
    """The value that `value` was before its layout was changed."""
    while isinstance(op := value.op, ConvertLayout):
        value = op.source
    return value


def order_of_buffer(value: Value, index: int, *, any_order: bool, outer_first: bool = False) -> tuple[int, ...]:
    """The dimensions of a buffer for the operand `index`, the one that changes fastest first."""
    if any_order:
        source = before_conversions(value)
        return memory_order(distributed_of(source), tile_type(source).shape)
    return INNER_FIRST[index ^ outer_first]


def is_transposed(value: Value, index: int, *, any_order: bool, outer_first: bool = False) -> bool:
    """Whether the buffer for an operand has another order than its registers, so that they must be transposed first."""
    wanted = order_of_buffer(value, index, any_order=any_order, outer_first=outer_first)
    return wanted != order_of_buffer(value, index, any_order=True)


def in_shared_memory(
    value: Value,
    index: int,
    *,
    any_order: bool,
    fp4_padded: bool = False,
    outer_first: bool = False,
    cga: Bases | None = None,
) -> Value:
    """A buffer with the operand `index` of a product.

    Args:
        value: the operand.
        index: 0 for the left one, 1 for the right one.
        any_order: the instruction can read it in the order of its registers.
        fp4_padded: pairs of elements of 4 bits are padded.
        outer_first: if not any order, M or N changes fastest.
        cga: how the buffer is divided among CTAs; as the operand if it is left out.
    """
    order = order_of_buffer(value, index, any_order=any_order, outer_first=outer_first)
    cga = cga_layout(layout_of(value)) if cga is None else cga
    value = _divided(before_conversions(value), cga)
    tile = tile_type(value)
    shared = nvmma_for(tile.shape, order, bits=tile.bits, cga=cga, fp4_padded=fp4_padded)
    return put_after(
        value, Op.create("ttg.local_alloc", (value,), (MemDescType(tile.shape, tile.element, shared.text),))
    )


def _divided(value: Value, cga: Bases) -> Value:
    """`value` with this division among CTAs: parts that other CTAs have come by a conversion."""
    layout = layout_of(value)
    if cga_layout(layout) == cga:
        return value
    if isinstance(layout, Blocked):
        kept = (layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, layout.order)
        return converted_after(value, Blocked(*kept, cga))
    shape, (user, *_) = tile_type(value).shape, value.uses
    order = memory_order(distributed_of(value), shape)
    return converted_after(value, fill_cta(shape, (1,) * len(shape), order, workers_of(user), cga))


def with_stop_in_shared_memory(scale: Value) -> Value:
    """Scales that are loaded go through a buffer: copies to tensor memory, and loops that load ahead, look for it.

    Scales that do not come from a load through reshapes, transpositions and conversions stay as they are.
    """
    loaded = scale
    while isinstance(op := loaded.op, (Reshape, Trans, ConvertLayout)):
        loaded = op.source
    if not isinstance(op, LOADS):
        return scale
    tile = tile_type(loaded)
    layout = NvmmaShared(0, False, tile.bits, False, len(tile.shape), cga_layout(layout_of(loaded)))
    buffer = Op.create("ttg.local_alloc", (), (MemDescType(tile.shape, tile.element, layout.text),))
    kept = put_after(loaded, buffer)
    again = put_after(kept, Op.create("ttg.local_load", (kept,), (tile,)))
    loaded.replace_by(again)
    buffer.set_operands([loaded])
    return again if scale is loaded else scale
