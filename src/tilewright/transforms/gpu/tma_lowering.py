"""TMA: loads and stores through descriptors become copies of the tensor memory accelerator, to and from buffers.

    %x = tt.descriptor_load %d[%i, %j]           %b = ttg.local_alloc                   a buffer, and a barrier
                                                 ttng.init_barrier %bar, 1
                                                 ttng.barrier_expect %bar, 8192, %true
                                                 ttng.async_tma_copy_global_to_local %d[%i, %j] %b, %bar, %true
                                                 ttng.wait_barrier %bar, 0
                                                 ttng.inval_barrier %bar
                                                 %x = ttg.local_load %b

Buffers with the layout of the descriptor that a loaded tile is put in are the buffer itself. Stores write to a buffer,
let the accelerator see it (a fence), and wait until it has been read. A descriptor that a kernel makes is written to
memory in the accelerator's format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilewright.dialects.tt_descriptors import (
    BlockWrite,
    DescriptorGather,
    DescriptorLoad,
    DescriptorRead,
    DescriptorReduce,
    DescriptorScatter,
    DescriptorWrite,
    MakeTensorDescriptor,
)
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescView
from tilewright.dialects.ttg_warp_specialize import WarpSpecializePartitions
from tilewright.dialects.ttng_mma import WarpGroupDotWait
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Op, Value, buffer_type, tile_type
from tilewright.ir.declare import OPS
from tilewright.ir.operands import segment_attribute
from tilewright.ir.types import IntType, MemDescType, PointerType, TensorDescType, TensorType, Type, i1, i8, i32, i64
from tilewright.layouts.encodings import Encoding, LayoutError, NvmmaShared, SwizzledShared, encoding
from tilewright.layouts.queries import shape_per_cta
from tilewright.layouts.shared_choice import cga_with_rank, with_rank
from tilewright.layouts.shared_layouts import TMA_BOX, tma_box
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.workers import workers_of

DESCRIPTOR_BYTES = 128
SWIZZLE_MODES = {0: 0, 32: 1, 64: 2, 128: 3}
"""The accelerator's number for each width of swizzling, in bytes."""
ELEMENT_TYPES = {"bf16": 10, "f16": 6, "f32": 7, "f64": 9}
INTEGER_TYPES = {8: 0, 16: 1, 32: 2, 64: 4}
"""The accelerator's number for elements, by their bits."""
PADDED_FP4 = 14
FILL_WITH_NAN = 1


def tma_lowering(module: Op) -> bool:
    """Lower all ops on descriptors of `module`."""
    changed = False
    for function in functions_of(module):
        pool = ConstantPool(function.body)
        for op in list(function.walk()):
            lower = LOWERINGS.get(op.name)
            if lower is not None:
                lower(op, Lowering(op, pool))
                changed = True
    return changed


class Lowering:
    """The lowering of one op.

    Args:
        op: the op; new ones go in front of it.
        pool: the constants of the function.
    """

    def __init__(self, op: Op, pool: ConstantPool) -> None:
        self.op = op
        self.pool = pool

    def emit(
        self,
        name: str,
        groups: Sequence[Sequence[Value]],
        types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
    ) -> Op:
        """A new op, whose operands are given by groups as the op kind names them."""
        definition = OPS[name]
        counted = segment_attribute(definition.operand_names, [len(group) for group in groups])
        operands = [value for group in groups for value in group]
        assert self.op.block is not None, f"{self.op.name} is in no block"
        made = Op(definition, operands, types, {**(attributes or {}), **counted}, location=self.op.location)
        return self.op.block.insert(made, self.op)

    def buffer(self, descriptor: Value, tile: TensorType, source: Value | None = None) -> Value:
        """A buffer for a tile of a descriptor; with `source` one that holds it and stays as it is."""
        layout = buffer_layout(descriptor.type, tile)
        type = MemDescType(tile.shape, tile.element, layout.text, mutable=source is None)
        return self.emit("ttg.local_alloc", [[] if source is None else [source]], (type,)).result

    def number(self, value: int, type: Type = i32) -> Value:
        return self.pool.value(value, type)


def buffer_layout(descriptor: Type, tile: TensorType) -> Encoding:
    """The layout of the buffer for a tile that a descriptor reads or writes."""
    assert isinstance(descriptor, TensorDescType), "a descriptor"
    assert descriptor.block.encoding, f"{descriptor} has no layout"
    layout = encoding(descriptor.block.encoding)
    rank = len(tile.shape)
    if descriptor.block.shape == tile.shape or layout.rank == rank:
        return layout
    if isinstance(layout, NvmmaShared):
        return with_rank(layout, rank)
    assert isinstance(layout, SwizzledShared), f"a descriptor has no buffers of kind {layout.name}"
    missing = tuple(reversed(range(layout.rank, rank)))
    order = (*missing, *(dim for dim in layout.order if dim < rank))
    cga = cga_with_rank(layout.cga, rank)
    return SwizzledShared(layout.vec, layout.per_phase, layout.max_phase, order, cga)


# --- loads --------------------------------------------------------------------------------------------------------


def _load(op: DescriptorLoad, at: Lowering) -> None:
    def copy(barrier: Value, buffer: Value, always: Value) -> None:
        groups = [[op.descriptor], op.indices, [], [barrier], [buffer], [always]]
        at.emit("ttng.async_tma_copy_global_to_local", groups)

    _through_barrier(op, at, copy)


def _gather(op: DescriptorGather, at: Lowering) -> None:
    rows = wide_rows(at, op.rows)

    def copy(barrier: Value, buffer: Value, always: Value) -> None:
        at.emit("ttng.async_tma_gather", [[op.descriptor], [rows], [op.column], [barrier], [buffer], [always]])

    _through_barrier(op, at, copy)


def wide_rows(at: Lowering, rows: Value) -> Value:
    """Row numbers as i32."""
    if rows.type.scalar is i32:
        return rows
    tile = tile_type(rows)
    return at.emit("arith.extsi", [[rows]], (TensorType(tile.shape, i32, tile.encoding),)).result


def _through_barrier(op: DescriptorRead, at: Lowering, copy: Callable[[Value, Value, Value], None]) -> None:
    """Start a copy, wait until all its bytes have arrived, and let the users of the result read the buffer."""
    tile = tile_type(op.result)
    buffer = at.buffer(op.descriptor, tile)
    ctas = workers_of(op).ctas
    bases = tuple((1 << bit,) for bit in range(ctas.bit_length() - 1))
    line = SwizzledShared(1, 1, 1, (0,), bases)
    barrier = at.emit("ttg.local_alloc", [[]], (MemDescType((ctas,), i64, line.text, mutable=True),)).result
    at.emit("ttng.init_barrier", [[barrier]], (), {"count": Number(1, i32)})
    extents = shape_per_cta(buffer_layout(op.descriptor.type, tile), tile.shape)
    size = prod(extents) * tile.bits // 8
    always = at.number(1, i1)
    at.emit("ttng.barrier_expect", [[barrier], [always]], (), {"size": Number(size, i32)})
    copy(barrier, buffer, always)
    at.emit("ttng.wait_barrier", [[barrier], [at.number(0)], [], []])
    at.emit("ttng.inval_barrier", [[barrier]])
    read_from(op, buffer)


def read_from(load: Op, buffer: Value, *, before: Op | None = None, token: Value | None = None) -> Op | None:
    """Let the users of the tile that `load` gives use `buffer`, which holds it; erases `load`.

    Args:
        load: the op.
        buffer: memory with the tile.
        before: where a tile is read from the buffer if somebody needs one; default: `load`.
        token: what the reader must wait for.

    Returns:
        the `ttg.local_load`, if there is one.
    """
    read = None
    copies = [user for user in load.result.uses if isinstance(user, LocalAlloc) and _is_alike(user, buffer)]
    for copy in copies:
        if len(copies) == 1 or not _is_mutable(copy.result):
            copy.replace([buffer])
    if load.result.uses:
        operands = [buffer] if token is None else [buffer, token]
        place = before or load
        read = Op(OPS["ttg.local_load"], operands, (load.result.type,), location=load.location)
        assert place.block is not None, f"{place.name} is in no block"
        place.block.insert(read, place)
        load.replace(read.results)
    else:
        load.erase()
    _retype_views(buffer)
    return read


def _is_alike(alloc: LocalAlloc, buffer: Value) -> bool:
    own, other = alloc.result.type, buffer.type
    return isinstance(own, MemDescType) and isinstance(other, MemDescType) and own.encoding == other.encoding


def _is_mutable(buffer: Value) -> bool:
    return isinstance(buffer.type, MemDescType) and buffer.type.mutable


def _retype_views(buffer: Value) -> None:
    """Make what is derived from a buffer as mutable as the buffer."""
    mutable = buffer_type(buffer).mutable
    for value in [value for user in buffer.uses for value in _derived(user, buffer)]:
        type = value.type
        if isinstance(type, MemDescType) and type.mutable is not mutable:
            value.type = MemDescType(type.shape, type.element, type.encoding, type.space, mutable, type.alloc_shape)
            _retype_views(value)


def _derived(user: Op, buffer: Value) -> Sequence[Value]:
    """The values that `user` gives or hands on and that are `buffer`, or a part of it."""
    places = [index for index, value in enumerate(user.operands) if value is buffer]
    if isinstance(user, MemDescView):
        return user.results
    if isinstance(user, WarpGroupDotWait):
        return [user.results[index] for index in places]
    if isinstance(user, WarpSpecializePartitions):
        return [region.block.args[index] for region in user.regions for index in places]
    return ()


# --- stores -------------------------------------------------------------------------------------------------------


def _store(op: BlockWrite, at: Lowering) -> None:
    _through_buffer(op, at, "ttng.async_tma_copy_local_to_global", [op.indices])


def _reduce(op: DescriptorReduce, at: Lowering) -> None:
    _through_buffer(op, at, "ttng.async_tma_reduce", [op.indices], {"kind": Keyword(op.operation)})


def _scatter(op: DescriptorScatter, at: Lowering) -> None:
    _through_buffer(op, at, "ttng.async_tma_scatter", [[wide_rows(at, op.rows)], [op.column]])


def _through_buffer(
    op: DescriptorWrite,
    at: Lowering,
    name: str,
    place: Sequence[Sequence[Value]],
    attributes: dict[str, Attribute] | None = None,
) -> None:
    buffer = at.buffer(op.descriptor, tile_type(op.value), op.value)
    at.emit("ttng.fence_async_shared", [], (), {"bCluster": False})
    at.emit(name, [[op.descriptor], *place, [buffer]], (), attributes)
    at.emit("ttng.async_tma_store_wait", [], (), {"pendings": Number(0, i32)})
    op.erase()


# --- descriptors --------------------------------------------------------------------------------------------------


def _make(op: MakeTensorDescriptor, at: Lowering) -> None:
    sizes: dict[str, Attribute] = {"alignment": Number(DESCRIPTOR_BYTES, i32), "nbytes": Number(DESCRIPTOR_BYTES, i32)}
    memory = at.emit("ttg.global_scratch_alloc", [], (PointerType(i8),), sizes).result
    write_descriptor(at, op, memory)
    at.emit("ttng.tensormap_fenceproxy_acquire", [[memory]])
    op.replace(at.emit("ttng.reinterpret_tensor_descriptor", [[memory]], (op.result.type,)).results)


def write_descriptor(at: Lowering, op: MakeTensorDescriptor, memory: Value) -> None:
    """Write what `op` describes to memory, fastest dimension first, strides in bytes."""
    block = op.tile
    assert block.encoding, f"{op.result.type} has no layout"
    layout = encoding(block.encoding)
    rank = len(block.shape)
    padded = isinstance(layout, NvmmaShared) and layout.fp4_padded
    box = [at.number(size) for size in reversed(box_of(layout, block.shape))]
    sizes = list(reversed(op.shape))
    if padded:
        sizes[0] = at.emit("arith.muli", [[sizes[0], at.number(2)]], (i32,)).result
    steps = [_bytes(at, stride, block.bits // 8) for stride in reversed(op.strides[:-1])]
    ones = [at.number(1)] * rank
    attributes: dict[str, Attribute] = {
        "elem_type": Number(PADDED_FP4 if padded else element_type(block.element), i32),
        "fill_mode": Number(FILL_WITH_NAN if _pads_with_nan(op) else 0, i32),
        "interleave_layout": Number(0, i32),
        "swizzle_mode": Number(SWIZZLE_MODES[getattr(layout, "swizzling_byte_width", 0)], i32),
    }
    at.emit("ttng.tensormap_create", [[memory], [op.base], box, sizes, steps, ones], (), attributes)


def _bytes(at: Lowering, stride: Value, size: int) -> Value:
    return stride if size == 1 else at.emit("arith.muli", [[stride, at.number(size, i64)]], (i64,)).result


def _pads_with_nan(op: MakeTensorDescriptor) -> bool:
    padding = op.attributes.get("padding")
    return padding == Keyword("pad_nan") or (isinstance(padding, Number) and padding.value == 2)


def box_of(layout: Encoding, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The box that one instruction of the accelerator copies of a tile of `shape`, in elements of memory.

    Raises:
        LayoutError: the accelerator has no such layout.
    """
    extents = tuple(shape_per_cta(layout, shape))
    if isinstance(layout, NvmmaShared):
        box = list(tma_box(layout, extents))
        if layout.fp4_padded:
            box[0 if layout.transposed else -1] *= 2
        return tuple(box)
    if not isinstance(layout, SwizzledShared) or (layout.vec, layout.per_phase, layout.max_phase) != (1, 1, 1):
        raise LayoutError(f"a descriptor cannot have the layout {layout.text}")
    return tuple(min(extent, TMA_BOX) for extent in extents)


def element_type(element: Type) -> int:
    """The accelerator's number for an element type."""
    if isinstance(element, IntType) or element.text not in ELEMENT_TYPES:
        return INTEGER_TYPES[element.bits]
    return ELEMENT_TYPES[element.text]


LOWERINGS: dict[str, Callable[[Any, Lowering], None]] = {
    "tt.descriptor_gather": _gather,
    "tt.descriptor_load": _load,
    "tt.descriptor_reduce": _reduce,
    "tt.descriptor_scatter": _scatter,
    "tt.descriptor_store": _store,
    "tt.make_tensor_descriptor": _make,
}
