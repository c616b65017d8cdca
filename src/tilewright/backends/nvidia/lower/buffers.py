"""Buffers in shared memory: `ttg.local_alloc`, `ttg.local_load`, `ttg.local_store`, and views of them.

    %b = ttg.local_alloc : () -> !ttg.memdesc<3x64x32xf16, #shared, #smem, mutable>       base: allocation.offset
    %s = ttg.memdesc_index %b[%i] : … -> !ttg.memdesc<64x32xf16, …>                       base: + 4096 * %i
    %p = ttg.memdesc_subslice %s[0, 16] : … -> !ttg.memdesc<64x16xf16, …, 64x32>          within: 32, added by XOR

A buffer is represented by the address of its first byte and by the offset of the view within its swizzled layout. A
view has the layout of the whole allocation, so the offset of an element is the XOR of the view's offset and its own.
Transposing and reshaping change neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

from tilewright.analysis.scratch_memory import LDMATRIX_SINCE, STMATRIX_SINCE
from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.access_plan import Plan, Unit, plan_of
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.backends.nvidia.lower.shared_tiles import (
    BYTE,
    Bytes,
    address,
    cluster_barrier,
    load_tile,
    memory_bits,
    offset,
    store_tile,
    with_holes,
)
from tilewright.dialects.ttg_attributes import OFFSET
from tilewright.dialects.ttg_memory import (
    LocalAlloc,
    LocalLoad,
    LocalStore,
    MemDescIndex,
    MemDescReinterpret,
    MemDescSubslice,
    MemDescView,
)
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, buffer_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Shared, encoding, encoding_as
from tilewright.layouts.linear_layout import LinearLayout, log2
from tilewright.layouts.memory_access import MAX_BITS
from tilewright.layouts.queries import stored_shape
from tilewright.layouts.shared import PaddedShared, PartitionedShared
from tilewright.layouts.walk import dimension_names

BYTE_MATRICES_SINCE = 100
"""The first capability whose instructions for matrices transpose bytes."""


class Viewed(Protocol):
    """A buffer of any kind of memory, of which there are views."""

    def viewed(self, lowerer: Lowerer, op: MemDescView) -> Any:
        """The buffer that a view, such as `ttg.memdesc_index`, gives."""


class SharedBuffer:
    """A buffer in shared memory.

    Attributes:
        base: its first byte in the block's shared memory; an i32.
        within: where the part of it that is seen begins, in bytes of its layout; an i32 that is added by XOR.
        span: the bits that `within` may have.
    """

    def __init__(self, base: str, within: str = "0", span: int = 0) -> None:
        self.base, self.within, self.span = base, within, span

    def parts(self) -> list[Typed]:
        """The values that loops and branches pass on."""
        return [("i32", self.base), *([("i32", self.within)] if self.span else [])]

    def with_parts(self, values: Sequence[str]) -> SharedBuffer:
        """The same kind of buffer, made of other values."""
        return SharedBuffer(values[0], values[1] if self.span else "0", self.span)

    def viewed(self, lowerer: Lowerer, op: MemDescView) -> SharedBuffer:
        """The buffer that a view gives."""
        match op:
            case MemDescIndex():
                return self._stage(lowerer, op)
            case MemDescSubslice():
                return self._part(lowerer, op)
            case MemDescReinterpret():
                return SharedBuffer(_sum(lowerer, self.base, self.within))  # no bit of the two is in both
        return self

    def _stage(self, lowerer: Lowerer, op: MemDescIndex) -> SharedBuffer:
        """One of several buffers that follow each other."""
        result = buffer_type(op.result)
        size = prod(stored_shape(shared_layout(result), result.shape)) * byte_size(result)
        index = lowerer.scalar(op.index)
        if index.startswith("%"):
            distance, _ = with_holes(lowerer, lowerer.w.emit(f"mul i32 {index}, {size}"), 0, _holes(result))
        else:
            _, added = with_holes(lowerer, "0", int(index) * size, _holes(result))
            distance = str(added)
        return SharedBuffer(_sum(lowerer, self.base, distance), self.within, self.span)

    def _part(self, lowerer: Lowerer, op: MemDescSubslice) -> SharedBuffer:
        offsets, result = op.offsets, buffer_type(op.result)
        places = buffer_layout(buffer_type(op.source)).pseudo_invert()
        (start, *_) = places.apply(**dict(zip(dimension_names(len(offsets)), offsets, strict=True)))
        bytes_from = start * byte_size(result)
        if self.within.startswith("%"):
            within = lowerer.w.emit(f"xor i32 {self.within}, {bytes_from}") if bytes_from else self.within
        else:
            within = str(int(self.within) ^ bytes_from)
        return SharedBuffer(self.base, within, span_of_part(result))

    def bytes(self, type: MemDescType) -> Bytes:
        """The place at which accesses find it."""
        return Bytes(self.base, self.within, self.span, _holes(type))


def _sum(lowerer: Lowerer, base: str, more: str) -> str:
    if "0" in (base, more):
        return base if more == "0" else more
    if not base.startswith("%") and not more.startswith("%"):
        return str(int(base) + int(more))
    return lowerer.w.emit(f"add i32 {base}, {more}")


# Types


def shared_layout(type: MemDescType) -> Shared:
    """The layout of a buffer in shared memory."""
    return encoding_as(Shared, type.encoding)


def byte_size(type: MemDescType) -> int:
    """The bytes of an element."""
    return max(BYTE, type.element.bits) // BYTE


def buffer_layout(type: MemDescType) -> LinearLayout:
    """The layout from offset and block to the elements of the allocation that `type` is a part of."""
    return to_linear_layout(shared_layout(type), type.alloc_shape[-len(type.shape) :])


def span_of_part(type: MemDescType) -> int:
    """The bits, in bytes, that the beginnings of parts with this type may have."""
    whole = type.alloc_shape[-len(type.shape) :]
    if whole == type.shape:
        return 0
    places, found = buffer_layout(type).pseudo_invert(), 0
    for name, size, least in zip(dimension_names(len(whole)), whole, type.shape, strict=True):
        for bit in range(log2(least), log2(size)):
            found |= places.apply(**{name: 1 << bit})[0]
    return found * byte_size(type)


def _holes(type: MemDescType) -> tuple[tuple[int, int], ...]:
    layout = encoding(type.encoding)
    if not isinstance(layout, PaddedShared):
        return ()
    size = byte_size(type)
    return tuple((log2(interval * size), log2(padding * size)) for interval, padding in layout.pads)


# Ops


def _alloc(lowerer: Lowerer, op: LocalAlloc) -> None:
    at = op.attributes[OFFSET]
    if isinstance(shared_layout(buffer_type(op.result)), PartitionedShared) or not isinstance(at, Number):
        raise refused(op, "a buffer in several pieces", "only AMD's devices need them")
    lowerer.bind_buffer(op.result, SharedBuffer(str(int(at.value))))
    if op.source is not None:
        _put(lowerer, op, op.source, op.result)


def _store(lowerer: Lowerer, op: LocalStore) -> None:
    _put(lowerer, op, op.value, op.buffer)


def _put(lowerer: Lowerer, op: Op, tile: Value, buffer: Value) -> None:
    element, type = lowerer.element(tile.type), buffer_type(buffer)
    units = units_of(lowerer.target.capability, STMATRIX_SINCE, Unit.STORED_BYTES)
    plan = buffer_plan(lowerer, tile, type, units)
    if has_other_copies(lowerer, tile, type):
        reason = "store a tile that each of the blocks has, or launch the kernel with num_ctas=1"
        raise refused(op, "a store of one block to the shared memory of several", reason)
    if plan.block is not None:
        cluster_barrier(lowerer)  # the other blocks have read what was there
    store_tile(lowerer, lowerer.registers(tile), element, plan, lowerer.buffer(buffer).bytes(type))
    if plan.block is not None:
        cluster_barrier(lowerer)  # and may read


def _load(lowerer: Lowerer, op: LocalLoad) -> None:
    type = buffer_type(op.buffer)
    units = units_of(lowerer.target.capability, LDMATRIX_SINCE, Unit.LOADED_BYTES)
    plan = buffer_plan(lowerer, op.result, type, units)
    where = lowerer.buffer(op.buffer).bytes(type)
    if plan.block is not None:
        cluster_barrier(lowerer)  # the other blocks have written
    lowerer.bind(op.result, load_tile(lowerer, lowerer.element(op.result.type), plan, where))
    if plan.block is not None:
        cluster_barrier(lowerer)  # and may write again


def has_other_copies(lowerer: Lowerer, tile: Value, type: MemDescType) -> bool:
    """Whether other blocks have memory for elements that only this one has in registers."""
    memory, registers = buffer_layout(type).columns["block"], lowerer.layout(tile).columns["block"]
    return len(memory) == len(registers) and any(not mine and own for mine, own in zip(memory, registers, strict=True))


def units_of(capability: int, since: int, of_bytes: Unit) -> tuple[Unit, ...]:
    """The units that a device can move, the best first: matrices since a capability, of bytes since a later one."""
    bytes_too = (of_bytes,) if capability >= BYTE_MATRICES_SINCE else ()
    return (Unit.MATRIX, Unit.TRANSPOSED, *bytes_too, Unit.VECTOR) if capability >= since else (Unit.VECTOR,)


def buffer_plan(lowerer: Lowerer, tile: Value, type: MemDescType, units: tuple[Unit, ...]) -> Plan:
    """The plan by which a tile moves between its registers and a buffer.

    Args:
        units: what the device can move at once, the best first.
    """
    bits, most = memory_bits(lowerer.element(type)), unbroken(type)
    if most is not None:
        units = (Unit.VECTOR,)
    offsets = lowerer.layout(tile).invert_and_compose(buffer_layout(type))
    return plan_of(offsets, bits, units=units, most=most and min(most, MAX_BITS // bits))


def unbroken(type: MemDescType) -> int | None:
    """The elements of a buffer with holes that lie together at a multiple of their size; None without holes."""
    layout = shared_layout(type)
    return min(size for pad in layout.pads for size in pad) if isinstance(layout, PaddedShared) else None


def _view(lowerer: Lowerer, op: MemDescView) -> None:
    buffer: Viewed = lowerer.buffer(op.source)
    lowerer.bind_buffer(op.result, buffer.viewed(lowerer, op))


def _nothing(lowerer: Lowerer, op: Op) -> None:
    """The place of a buffer is known when the program begins; nothing happens when it ends."""


def buffer_pointer(lowerer: Lowerer, value: Value) -> str:
    """The address of the first element of a buffer; for barriers, and for instructions that take whole buffers."""
    type = buffer_type(value)
    plan = plan_of(LinearLayout({}, (("offset", 1),)), BYTE)
    return offset(lowerer, *address(lowerer, plan, 0, lowerer.buffer(value).bytes(type)))


LOWERINGS: dict[str, Lowering] = {
    "ttg.local_alloc": _alloc,
    "ttg.local_dealloc": _nothing,
    "ttg.local_load": _load,
    "ttg.local_store": _store,
    "ttg.memdesc_index": _view,
    "ttg.memdesc_reinterpret": _view,
    "ttg.memdesc_reshape": _view,
    "ttg.memdesc_subslice": _view,
    "ttg.memdesc_trans": _view,
}
