"""TMA: loads and stores through descriptors become copies of the tensor memory accelerator, to and from buffers.

    %x = tt.descriptor_load %d[%i, %j]           %b = ttg.local_alloc                   a buffer, and a barrier
                                                 ttng.init_barrier %bar, 1
                                                 ttng.barrier_expect %bar, 8192, %true
                                                 ttng.async_tma_copy_global_to_local %d[%i, %j] %b, %bar, %true
                                                 ttng.wait_barrier %bar, 0
                                                 ttng.inval_barrier %bar
                                                 %x = ttg.local_load %b

If a loaded tile is stored to a buffer with the descriptor's layout, the copy writes that buffer directly. Stores write
to a buffer, make it visible to the accelerator by a fence, and wait until it has been read. A descriptor that a kernel
makes is written to memory in the accelerator's format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.dialects.tt_descriptors import (
    BlockWrite,
    DescriptorGather,
    DescriptorLoad,
    DescriptorRead,
    DescriptorReduce,
    DescriptorScatter,
    DescriptorWrite,
    MakeTensorDescriptor,
    descriptor_block,
)
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescView
from tilewright.dialects.ttg_warp_specialize import WarpSpecializePartitions
from tilewright.dialects.ttng_mma import WarpGroupDotWait
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value, buffer_type, tile_type
from tilewright.ir.types import IntType, MemDescType, PointerType, TensorType, Type, i1, i8, i32, i64
from tilewright.layouts.conversion import TMA_BOX, image_box, tma_box
from tilewright.layouts.encodings import Encoding, LayoutError, NvmmaShared, SwizzledShared, encoding
from tilewright.layouts.queries import shape_per_cta
from tilewright.layouts.shared_choice import cga_with_rank, with_rank
from tilewright.transforms.functions import functions_of
from tilewright.transforms.gpu.tile_ops import workers_of
from tilewright.transforms.op_builder import OpBuilder

DESCRIPTOR_BYTES = 128
SWIZZLE_MODES = {0: 0, 32: 1, 64: 2, 128: 3}
"""The accelerator's number for each width of swizzling, in bytes."""
ELEMENT_TYPES = {"bf16": 10, "f16": 6, "f32": 7, "f64": 9}
UNSIGNED_TYPES, SIGNED_TYPES = {8: 0, 16: 1, 32: 2, 64: 4}, {32: 3, 64: 5}
"""The accelerator's number for elements, by their bits; signs matter to minima and maxima."""
PADDED_FP4 = 14
FILL_WITH_NAN = 1


def tma_lowering(module: Op) -> bool:
    """Lower all descriptor ops of `module`."""
    changed = False
    for function in functions_of(module):
        for op in list(function.walk()):
            lower = LOWERINGS.get(op.name)
            if lower is not None:
                lower(op, OpBuilder(op))
                changed = True
    return changed


def buffer_layout(descriptor: Value, tile: TensorType) -> Encoding:
    """The layout of the buffer for a tile that a descriptor reads or writes."""
    block = descriptor_block(descriptor)
    assert block.encoding, f"{block} has no layout"
    layout = encoding(block.encoding)
    rank = len(tile.shape)
    if block.shape == tile.shape or layout.rank == rank:
        return layout
    if isinstance(layout, NvmmaShared):
        return with_rank(layout, rank)
    assert isinstance(layout, SwizzledShared), f"a descriptor has no buffers of kind {layout.name}"
    missing = tuple(reversed(range(layout.rank, rank)))
    order = (*missing, *(dim for dim in layout.order if dim < rank))
    cga = cga_with_rank(layout.cga, rank)
    return SwizzledShared(layout.vec, layout.per_phase, layout.max_phase, order, cga)


# --- loads --------------------------------------------------------------------------------------------------------


def wide_rows(at: OpBuilder, rows: Value) -> Value:
    """Row numbers as i32."""
    if rows.type.scalar is i32:
        return rows
    return at.cast("arith.extsi", rows, i32)


def line_of_ctas(op: Op) -> SwizzledShared:
    """The layout of a line with one element per CTA of those that execute `op`."""
    return SwizzledShared(1, 1, 1, (0,), tuple((1 << bit,) for bit in range(workers_of(op).ctas.bit_length() - 1)))


def barriers_type(op: Op, *count: int) -> MemDescType:
    """The type of a barrier for what the CTAs that execute `op` do, or of `count` ones."""
    return MemDescType((*count, workers_of(op).ctas), i64, line_of_ctas(op).text, mutable=True)


def start_reading(
    at: OpBuilder, op: DescriptorRead, barrier: Value, buffer: Value, always: Value, rows: Value | None = None
) -> None:
    """Start the copy of what `op` reads to a buffer; `rows` are its row numbers as i32, if they are there already.

    Args:
        at: where ops go.
        op: the load or gather.
        barrier: the barrier that the bytes arrive at.
        always: an i1 that is true.
        rows: the row numbers of a gather; None: they are those of `op`.
    """
    if isinstance(op, DescriptorLoad):
        at.op("ttng.async_tma_copy_global_to_local", [op.descriptor, op.indices, [], barrier, buffer, always])
    elif isinstance(op, DescriptorGather):
        rows = rows or wide_rows(at, op.rows)
        at.op("ttng.async_tma_gather", (op.descriptor, rows, op.column, barrier, buffer, always))


def _read(op: DescriptorRead, at: OpBuilder) -> None:
    """Start a copy, wait until all its bytes have arrived, and let the users of the result read the buffer."""
    rows = wide_rows(at, op.rows) if isinstance(op, DescriptorGather) else None
    tile, layout = tile_type(op.result), buffer_layout(op.descriptor, tile_type(op.result))
    buffer = at.emit("ttg.local_alloc", (), MemDescType(tile.shape, tile.element, layout.text, mutable=True))
    barrier = at.emit("ttg.local_alloc", (), barriers_type(op))
    at.op("ttng.init_barrier", (barrier,), (), {"count": Number(1, i32)})
    size = prod(shape_per_cta(layout, tile.shape)) * tile.bits // 8
    always = at.literal(1, i1)
    at.op("ttng.barrier_expect", (barrier, always), (), {"size": Number(size, i32)})
    start_reading(at, op, barrier, buffer, always, rows)
    at.op("ttng.wait_barrier", [barrier, at.literal(0, i32), [], []])
    at.op("ttng.inval_barrier", (barrier,))
    read_from(op, buffer)


def read_from(load: Op, buffer: Value, *, before: Op | None = None, token: Value | None = None) -> Op | None:
    """Let the users of the tile that `load` gives use `buffer`, which holds it; erases `load`.

    Args:
        buffer: memory with the tile.
        before: where a tile is read from the buffer if one is needed; default: `load`.
        token: what the reader must wait for.

    Returns:
        the `ttg.local_load`, if there is one.
    """
    read = None
    copies = copies_of(load.results[0], buffer_type(buffer).encoding)
    if any(user not in copies for user in load.result.uses):
        operands = [buffer] if token is None else [buffer, token]
        at = OpBuilder(before or load)
        at.location = load.location
        read = at.op("ttg.local_load", operands, (load.result.type,))
    for copy in copies:
        copy.replace([buffer])
    if read is None:
        load.erase()
    else:
        load.replace(read.results)
    retype_views(buffer)
    return read


def copies_of(tile: Value, layout: str | None) -> list[LocalAlloc]:
    """The ops that copy `tile` to buffers in place of which one with this layout that holds it may be used."""
    allocs = [user for user in tile.uses if isinstance(user, LocalAlloc)]
    copies = [alloc for alloc in allocs if buffer_type(alloc.result).encoding == layout]
    copies = [copy for copy in copies if len(copies) == 1 or not buffer_type(copy.result).mutable]
    # The result of a branch or a loop keeps the type of the copy.
    return [copy for copy in copies if not _is_given_out(copy)]


def _is_given_out(copy: LocalAlloc) -> bool:
    """Whether a branch or a loop has what `copy` allocates as a result."""
    users = users_through_views(copy.result)
    return any(user.definition.terminator and not isinstance(user, WarpSpecializePartitions) for user in users)


def retype_views(buffer: Value) -> None:
    """Make what is derived from a buffer as mutable as the buffer."""
    mutable = buffer_type(buffer).mutable
    for value in [value for user in buffer.uses for value in _derived(user, buffer)]:
        type = value.type
        if isinstance(type, MemDescType) and type.mutable is not mutable:
            value.type = MemDescType(type.shape, type.element, type.encoding, type.space, mutable, type.alloc_shape)
            retype_views(value)


def _derived(user: Op, buffer: Value) -> Sequence[Value]:
    """The values that `user` gives or passes on and that are `buffer`, or a part of it."""
    places = [index for index, value in enumerate(user.operands) if value is buffer]
    if isinstance(user, MemDescView):
        return user.results
    if isinstance(user, WarpGroupDotWait):
        return [user.results[index] for index in places]
    if isinstance(user, WarpSpecializePartitions):
        return [region.block.args[index] for region in user.regions for index in places]
    return ()


# --- stores -------------------------------------------------------------------------------------------------------


def start_writing(at: OpBuilder, op: DescriptorWrite, buffer: Value, rows: Value | None = None) -> None:
    """Start the copy of what `op` writes from a buffer; `rows` as of `start_reading`."""
    if isinstance(op, DescriptorReduce):
        kind: dict[str, Attribute] = {"kind": Keyword(op.operation)}
        at.op("ttng.async_tma_reduce", (op.descriptor, *op.indices, buffer), (), kind)
    elif isinstance(op, BlockWrite):
        at.op("ttng.async_tma_copy_local_to_global", (op.descriptor, *op.indices, buffer))
    elif isinstance(op, DescriptorScatter):
        rows = rows or wide_rows(at, op.rows)
        at.op("ttng.async_tma_scatter", (op.descriptor, rows, op.column, buffer))


def _write(op: DescriptorWrite, at: OpBuilder) -> None:
    rows = wide_rows(at, op.rows) if isinstance(op, DescriptorScatter) else None
    tile = tile_type(op.value)
    type = MemDescType(tile.shape, tile.element, buffer_layout(op.descriptor, tile).text)
    buffer = at.emit("ttg.local_alloc", (op.value,), type)
    at.op("ttng.fence_async_shared", (), (), {"bCluster": False})
    start_writing(at, op, buffer, rows)
    at.op("ttng.async_tma_store_wait", (), (), {"pendings": Number(0, i32)})
    op.erase()


# --- descriptors --------------------------------------------------------------------------------------------------


def _make(op: MakeTensorDescriptor, at: OpBuilder) -> None:
    memory = descriptor_memory(at, 1)
    write_descriptor(at, op, memory)
    at.op("ttng.tensormap_fenceproxy_acquire", (memory,))
    op.replace(at.op("ttng.reinterpret_tensor_descriptor", (memory,), (op.result.type,)).results)


def descriptor_memory(at: OpBuilder, count: int) -> Value:
    """Global memory for this number of descriptors."""
    sizes = {"alignment": Number(DESCRIPTOR_BYTES, i32), "nbytes": Number(count * DESCRIPTOR_BYTES, i32)}
    return at.emit("ttg.global_scratch_alloc", (), PointerType(i8), {**sizes})


def write_descriptor(at: OpBuilder, op: MakeTensorDescriptor, memory: Value) -> None:
    """Write what `op` describes to memory, fastest dimension first, strides in bytes."""
    block = op.tile
    assert block.encoding, f"{op.result.type} has no layout"
    layout = encoding(block.encoding)
    rank = len(block.shape)
    padded = isinstance(layout, NvmmaShared) and layout.fp4_padded
    box = [at.literal(size, i32) for size in reversed(box_of(layout, block.shape))]
    sizes = list(reversed(op.shape))
    if padded:
        sizes[0] = at.compute("arith.muli", sizes[0], at.literal(2, i32))
    steps = [_bytes(at, stride, block.bits // 8) for stride in reversed(op.strides[:-1])]
    ones = [at.literal(1, i32)] * rank
    attributes: dict[str, Attribute] = {
        "elem_type": Number(PADDED_FP4 if padded else element_type(block.element), i32),
        "fill_mode": Number(FILL_WITH_NAN if _pads_with_nan(op) else 0, i32),
        "interleave_layout": Number(0, i32),
        "swizzle_mode": Number(SWIZZLE_MODES[getattr(layout, "swizzling_byte_width", 0)], i32),
    }
    at.op("ttng.tensormap_create", [memory, op.base, box, sizes, steps, ones], (), attributes)


def _bytes(at: OpBuilder, stride: Value, size: int) -> Value:
    return stride if size == 1 else at.compute("arith.muli", stride, at.literal(size, i64))


def _pads_with_nan(op: MakeTensorDescriptor) -> bool:
    padding = op.attributes.get("padding")
    return padding == Keyword("pad_nan") or (isinstance(padding, Number) and padding.value == 2)


def box_of(layout: Encoding, shape: tuple[int, ...], *, of_images: bool = False) -> tuple[int, ...]:
    """The box that one instruction of the accelerator copies of a tile of `shape`, in elements of memory.

    Args:
        of_images: the rows of the tile are pixels of images.

    Raises:
        LayoutError: the accelerator has no such layout.
    """
    extents = tuple(shape_per_cta(layout, shape))
    if isinstance(layout, NvmmaShared):
        box = list((image_box if of_images else tma_box)(layout, extents))
        if layout.fp4_padded:
            box[0 if layout.transposed else -1] *= 2
        return tuple(box)
    if not isinstance(layout, SwizzledShared) or (layout.vec, layout.per_phase, layout.max_phase) != (1, 1, 1):
        raise LayoutError(f"a descriptor cannot have the layout {layout.text}")
    return tuple(min(extent, TMA_BOX) for extent in extents)


def element_type(element: Type) -> int:
    """The accelerator's number for an element type."""
    if isinstance(element, IntType) and element.sign != "u" and element.bits in SIGNED_TYPES:
        return SIGNED_TYPES[element.bits]
    if isinstance(element, IntType) or element.text not in ELEMENT_TYPES:
        return UNSIGNED_TYPES[element.bits]
    return ELEMENT_TYPES[element.text]


LOWERINGS: dict[str, Callable[[Any, OpBuilder], None]] = {
    "tt.descriptor_gather": _read,
    "tt.descriptor_load": _read,
    "tt.descriptor_reduce": _write,
    "tt.descriptor_scatter": _write,
    "tt.descriptor_store": _write,
    "tt.make_tensor_descriptor": _make,
}
