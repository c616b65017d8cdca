"""Copies by the tensor memory accelerator: boxes of a tensor in global memory to and from buffers in shared memory.

    ttng.async_tma_copy_global_to_local %d[%i, %j] %buffer, %barrier, %p

    @%e cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [ %s ], [ %d, { %j, %i } ], [ %b ];

One instruction copies one box: rows as long as the swizzle, at most 256 of them. If a tile has several boxes, each warp
copies some of them; their offsets are a linear map of the warp's number.

If a program gives row numbers, one instruction copies four rows. Each warp copies the rows whose numbers its threads
have in registers; wide rows take one box after the other.

    ttng.async_tma_gather %d[%rows, %j] %buffer, %barrier, %p

    @%e cp.async.bulk.tensor.2d.tile::gather4… [ %s ], [ %d, { %j, %r0, %r1, %r2, %r3 } ], [ %b ];

A tensor map that a program makes itself, 128 bytes in the copy engine's format, is first written to shared memory:

    ttng.tensormap_create %m, %base, [64, 64], [%n, %m], [%bytes], [1, 1] {elem_type = 6, …}

    @%warp0 st.shared.b32 …, 0                                      all 128 bytes
    @%first tensormap.replace.tile.global_address.shared::cta.b1024.b64 [ %s ], %base;     each field
    @%warp0 tensormap.cp_fenceproxy…  [ %m ], [ %s ], 0x80;         to global memory, visible to all

A descriptor is the address of its map: of a kernel parameter, or in global memory. Strides are in bytes in every
version of PTX; assemblers before CUDA 12.6 took them in units of 16 bytes, and are not supported for such programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from tilewright.analysis.reduction_plan import WARP
from tilewright.analysis.scratch_memory import TENSORMAP
from tilewright.backends.nvidia.lower.buffers import buffer_layout, buffer_pointer, byte_size, shared_layout
from tilewright.backends.nvidia.lower.cache_hints import l2_hints
from tilewright.backends.nvidia.lower.cross_lane import added
from tilewright.backends.nvidia.lower.dot.operands_in_memory import uniform_bits
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import GLOBAL_POINTER, SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.mbarriers import (
    barrier_address,
    elected,
    first_of,
    first_thread,
    group_mask,
    on_condition,
    sharers,
)
from tilewright.backends.nvidia.lower.shared_tiles import offset
from tilewright.dialects.cache_policies import cache_policy_of
from tilewright.dialects.ttng_descriptors import (
    AsyncTmaCopyGlobalToLocal,
    AsyncTmaCopyLocalToGlobal,
    AsyncTmaGather,
    AsyncTmaReduce,
    AsyncTmaScatter,
    AsyncTmaStoreWait,
    ReinterpretTensorDescriptor,
    TensormapCreate,
    TensormapFenceproxyAcquire,
)
from tilewright.ir.core import Value, buffer_type
from tilewright.ir.types import MemDescType, TensorDescType
from tilewright.layouts.conversion import TMA_BOX, image_box, tma_box
from tilewright.layouts.encoding import encoding_as
from tilewright.layouts.linear_layout import log2
from tilewright.layouts.queries import cga_layout, shape_per_cta
from tilewright.layouts.shared import NvmmaShared
from tilewright.transforms.gpu.tile_ops import works_in_pairs

TO_MEMORY = (
    "@$0 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [ $1 ], [ $2 ], "
    f"{TENSORMAP};"
)
ACQUIRE = f"""@$0 fence.proxy.tensormap::generic.acquire.gpu [ $1 ], {TENSORMAP};
	@$0 cp.async.bulk.commit_group;
	@$0 cp.async.bulk.wait_group.read 0;"""
"""The fence, and an empty group: assemblers have been seen to drop what orders the fence without one."""


def _first_warp(lowerer: Lowerer) -> str:
    return lowerer.once(("warps", 1), lambda: lowerer.w.emit(f"icmp ult i32 {lowerer.thread()}, {WARP}"))


def _create(lowerer: Lowerer, op: TensormapCreate) -> None:
    w, map = lowerer.w, lowerer.scratch(op)
    own = offset(lowerer, map, w.emit(f"shl i32 {lowerer.thread()}, 2"))
    lowerer.assembly("@$0 st.shared.b32 [ $1 ], 0;", [("i1", _first_warp(lowerer)), (SHARED_POINTER, own)])
    w.call_void("llvm.nvvm.bar.warp.sync", [("i32", "-1")])
    first = first_thread(lowerer)
    for field, place, (type, value) in _fields(lowerer, op):
        kind = f"tensormap.replace.tile.{field}.shared::cta.b1024.{'b32' if type == 'i32' else 'b64'}"
        operands = [("i1", first), (SHARED_POINTER, map)]
        if value.startswith("%"):
            operands.append((type, value))
            value = "$2"
        lowerer.assembly(f"@$0 {kind} [ $1 ], {place}{value};", operands)
    operands = [("i1", _first_warp(lowerer)), (GLOBAL_POINTER, lowerer.scalar(op.address)), (SHARED_POINTER, map)]
    lowerer.assembly(TO_MEMORY, operands)


def _fields(lowerer: Lowerer, op: TensormapCreate) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """The fields of the map: name, number of the dimension where it has one, type and value."""
    lists = {
        "box_dim": op.box,
        "global_dim": op.shape,
        "global_stride": op.strides,
        "element_stride": op.element_strides,
    }
    numbers = {
        "elemtype": op.element_type,
        "interleave_layout": op.interleave_layout,
        "swizzle_mode": op.swizzle_mode,
        "fill_mode": op.fill_mode,
    }
    yield "global_address", "", (GLOBAL_POINTER, lowerer.scalar(op.base))
    yield "rank", "", ("i32", str(len(op.box) - 1))
    for name, values in lists.items():
        for dim, value in enumerate(values):
            yield name, f"{dim}, ", (lowerer.element(value.type), lowerer.scalar(value))
    for name, number in numbers.items():
        yield name, "", ("i32", str(number))


def _acquire(lowerer: Lowerer, op: TensormapFenceproxyAcquire) -> None:
    """One warp sees to it that the engine reads the new map, then all go on."""
    operands = [("i1", _first_warp(lowerer)), (GLOBAL_POINTER, lowerer.scalar(op.address))]
    lowerer.assembly(ACQUIRE, operands)
    lowerer.barrier()


def _reinterpret(lowerer: Lowerer, op: ReinterpretTensorDescriptor) -> None:
    source = lowerer.element(op.address.type)
    lowerer.bind(op.result, [lowerer.w.emit(f"addrspacecast {source} {lowerer.scalar(op.address)} to ptr")])


BlockCopy: TypeAlias = AsyncTmaCopyGlobalToLocal | AsyncTmaCopyLocalToGlobal | AsyncTmaReduce
MIN_ROW = 16
"""Min bytes along the last dimension that the accelerator moves."""
OWN_BLOCK_SINCE = 86
"""The first version of PTX in which a copy may name the own block's memory as target, not the cluster's."""


class Boxes(NamedTuple):
    """The boxes of a tile.

    Attributes:
        offsets: per bit of the number of a box, in bytes, where it lies in the buffer; added by XOR.
        places: per dimension and bit, where it lies in the block's part of the tile.
        parts: per dimension and bit of the number of the block, where its part begins.
        row: bytes of a box along the last dimension.
    """

    offsets: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[int, ...], ...]
    row: int


def copies_of(type: MemDescType) -> int:
    """The bits of the number of a block that lead to other copies of the same part of a tile."""
    return buffer_layout(type).free_masks()["block"]


@cache
def boxes_of(type: MemDescType, *, of_images: bool = False) -> Boxes:
    """The boxes in which a buffer's tile is copied; of images each has all pixels, and some of their channels."""
    layout, shape = shared_layout(type), tuple(type.shape)
    extents = tuple(shape_per_cta(layout, shape))
    padded = isinstance(layout, NvmmaShared) and layout.fp4_padded
    box = tuple(min(extent, TMA_BOX) for extent in extents)
    if isinstance(layout, NvmmaShared):
        box = (image_box if of_images else tma_box)(layout, extents)
    memory = buffer_layout(type)
    rows = [
        tuple(size << bit if other == axis else 0 for other in range(len(shape)))
        for axis, size in enumerate(box)
        for bit in range(log2(extents[axis] // size))
    ]
    inverse = memory.pseudo_invert()
    offsets = tuple(inverse.unpack(inverse.image(dict(zip(memory.out_names, row, strict=True))))[0] for row in rows)
    places, parts = _per_dimension(rows, shape, padded), _per_dimension(memory.bases["block"], shape, padded)
    row = box[-1] * byte_size(type) * (2 if padded else 1)
    return Boxes(tuple(start * byte_size(type) for start in offsets), places, parts, row)


def _per_dimension(
    rows: Sequence[tuple[int, ...]], shape: tuple[int, ...], is_padded: bool
) -> tuple[tuple[int, ...], ...]:
    """Per dimension the steps in elements of memory, of which padded fp4 has two for each of the tile's."""
    scales = [2 if is_padded and axis == len(shape) - 1 else 1 for axis in range(len(shape))]
    return tuple(tuple(row[axis] * scale for row in rows) for axis, scale in enumerate(scales))


class Message(NamedTuple):
    """One instruction, executed by the first warps, each for its own box.

    Attributes:
        condition: an i1 that holds in the threads that start a copy.
        pointer: where their box lies in shared memory.
        places: its place in the tensor, the fastest dimension first.
    """

    condition: str
    pointer: str
    places: list[str]


def _messages(lowerer: Lowerer, op: BlockCopy) -> Iterator[Message]:
    buffer = op.buffer
    of_images = isinstance(op.descriptor.type, TensorDescType) and op.descriptor.type.of_images
    boxes, base = boxes_of(buffer_type(buffer), of_images=of_images), buffer_pointer(lowerer, buffer)
    if boxes.row < MIN_ROW:
        reason = f"the engine moves rows of {MIN_ROW} bytes at least; each of the {lowerer.target.num_ctas} blocks of"
        reason += f" the cluster has {boxes.row}: take wider blocks, or num_ctas=1"
        raise refused(op, "this copy", reason)
    bits = len(boxes.offsets)
    shared = min(bits, log2(lowerer.target.num_warps))
    condition = elected(lowerer, 1 << shared)
    *others, inner = op.indices
    starts = [*map(lowerer.scalar, others), _inner_coordinate(lowerer, inner, buffer)]
    own = [uniform_bits(lowerer, columns[:shared]) for columns in boxes.places]
    of_block = [lowerer.linear({"block": columns}) for columns in boxes.parts]
    for more in (own, of_block):
        starts = [
            added(lowerer, start, part, "add") for start, part in zip(starts, _padded(more, len(starts)), strict=True)
        ]
    pointer = offset(lowerer, base, uniform_bits(lowerer, boxes.offsets[:shared]))
    for number in range(1 << bits - shared):
        fixed = [_image(columns[shared:], number) for columns in boxes.places]
        places = [added(lowerer, a, str(b), "add") for a, b in zip(starts, _padded(fixed, len(starts)), strict=True)]
        yield Message(condition, offset(lowerer, pointer, _image(boxes.offsets[shared:], number)), places[::-1])


def _padded(parts: Sequence[str | int], count: int) -> list[str]:
    """A buffer may have fewer dimensions than the tensor; those in front are one wide."""
    return ["0"] * (count - len(parts)) + [str(part) for part in parts]


def _inner_coordinate(lowerer: Lowerer, value: Value, buffer: Value) -> str:
    """The coordinate in the fastest dimension, in elements of memory: padded bytes have two each."""
    layout = shared_layout(buffer_type(buffer))
    start = lowerer.scalar(value)
    is_packed = isinstance(layout, NvmmaShared) and layout.fp4_padded
    return lowerer.w.emit(f"shl i32 {start}, 1") if is_packed else start


def _image(columns: Sequence[int], number: int) -> int:
    found = 0
    for bit, column in enumerate(columns):
        found ^= column if number >> bit & 1 else 0
    return found


def _listed(first: int, count: int) -> str:
    """Operands in braces: where something is in a tensor."""
    return f"{{ {', '.join(f'${first + place}' for place in range(count))} }}"


def _to_shared(
    lowerer: Lowerer,
    op: AsyncTmaCopyGlobalToLocal | AsyncTmaGather,
    form: str,
    condition: str,
    pointer: str,
    places: Sequence[str],
    offsets: Sequence[str] = (),
) -> None:
    """One copy to shared memory, whose bytes the op's barrier counts when they arrive.

    Of CTAs that have the same part of the tile, one copies it to all of them if the op says so.

    Args:
        offsets: of images, how far the elements are from the pixels that the copy goes through.
    """
    copies = copies_of(buffer_type(op.buffer)) if op.multicast else 0
    own = not copies and not sharers(op.barrier) and lowerer.target.ptx >= OWN_BLOCK_SINCE
    group = (2 if sharers(op.barrier) & 1 else 1) if works_in_pairs(op) else 0
    form += f".cta_group::{group}" if group else ""
    first = 4 + len(places)
    moved = f", {_listed(first, len(offsets))}" if offsets else ""
    to_all, mask = (".multicast::cluster", f", ${first + len(offsets)}") if copies else ("", "")
    source = "global.im2col" if offsets else "global"
    hints = l2_hints(lowerer, op, cache_policy_of(op))
    policy = f", ${first + len(offsets) + bool(copies)}" if hints.operands else ""
    text = (
        f"@$0 cp.async.bulk.tensor.{form}.shared::{'cta' if own else 'cluster'}.{source}.mbarrier::complete_tx::bytes"
        f"{to_all}{hints.suffix} [ $1 ], [ $2, {_listed(4, len(places))} ], [ $3 ]{moved}{mask}{policy};"
    )
    condition = first_of(lowerer, copies, condition)
    operands = [("i1", condition), (SHARED_POINTER, pointer), ("ptr", lowerer.scalar(op.descriptor))]
    operands += [(SHARED_POINTER, barrier_address(lowerer, op.barrier)), *(("i32", place) for place in places)]
    operands += [("i16", distance) for distance in offsets]
    if copies:
        mask = lowerer.w.emit(f"trunc i32 {group_mask(lowerer, copies)} to i16")
        operands.append(("i16", mask))
    lowerer.assembly(text, [*operands, *hints.operands])


def _from_shared(
    lowerer: Lowerer,
    op: AsyncTmaCopyLocalToGlobal | AsyncTmaReduce | AsyncTmaScatter,
    name: str,
    condition: str,
    pointer: str,
    places: Sequence[str],
) -> None:
    """One copy from shared memory, as a part of a group that one can wait for."""
    operands = [("i1", condition), ("ptr", lowerer.scalar(op.descriptor)), (SHARED_POINTER, pointer)]
    operands += [("i32", place) for place in places]
    hints = l2_hints(lowerer, op, cache_policy_of(op))
    policy = f", ${len(operands)}" if hints.operands else ""
    text = f"@$0 {name}.bulk_group{hints.suffix} [ $1, {_listed(3, len(places))} ], [ $2 ]{policy};"
    lowerer.assembly(text, [*operands, *hints.operands])


def _load(lowerer: Lowerer, op: AsyncTmaCopyGlobalToLocal) -> None:
    offsets = [lowerer.scalar(value) for value in reversed(op.offsets)]
    if offsets:
        _demand_one_run(op)
    for message in _messages(lowerer, op):
        condition = on_condition(lowerer, message.condition, op.predicate)
        _to_shared(lowerer, op, f"{len(op.indices)}d", condition, message.pointer, message.places, offsets)


def _demand_one_run(op: AsyncTmaCopyGlobalToLocal) -> None:
    """Demand that each CTA has all pixels: which one is next, the copy engine alone knows."""
    if any(row[0] for row in cga_layout(shared_layout(buffer_type(op.buffer)))):
        raise refused(op, "a block of images whose pixels are divided among CTAs", "divide the channels")


def _to_memory(lowerer: Lowerer, op: AsyncTmaCopyLocalToGlobal | AsyncTmaReduce, kind: str) -> None:
    copies = copies_of(buffer_type(op.buffer))
    name = kind.format(rank=len(op.indices))
    for message in _messages(lowerer, op):
        condition = first_of(lowerer, copies, message.condition)
        _from_shared(lowerer, op, name, condition, message.pointer, message.places)
    commit(lowerer)


def commit(lowerer: Lowerer) -> None:
    """All copies from shared memory so far are a group."""
    lowerer.w.call_void("llvm.nvvm.cp.async.bulk.commit.group", [])


def _reduce(lowerer: Lowerer, op: AsyncTmaReduce) -> None:
    _to_memory(lowerer, op, f"cp.reduce.async.bulk.tensor.{{rank}}d.global.shared::cta.{op.operation}")


def _store_wait(lowerer: Lowerer, op: AsyncTmaStoreWait) -> None:
    """Wait until all but so many groups have been read, or have written what others may read then."""
    kind = ".read" if op.read_only else ""
    lowerer.w.call_void(f"llvm.nvvm.cp.async.bulk.wait.group{kind}", [("i32", str(op.pendings))])


ROWS = 4
"""The number of rows that one instruction gathers or scatters."""


class Rows(NamedTuple):
    """Four rows, or as much of them as is copied at once.

    Attributes:
        numbers: of the rows, in registers.
        pointer: where they lie in shared memory.
        column: where in the rows the copy begins.
    """

    numbers: list[str]
    pointer: str
    column: str


def _rows(lowerer: Lowerer, op: AsyncTmaGather | AsyncTmaScatter) -> Iterator[Rows]:
    """The parts that each warp copies of the rows whose numbers it has; four neighbours in its registers at a time."""
    buffer, type = op.buffer, buffer_type(op.buffer)
    layout, memory = lowerer.layout(op.rows), encoding_as(NvmmaShared, type.encoding)
    part = shape_per_cta(memory, type.shape)
    if layout.columns["register"][:2] != (1, 2) or any(layout.columns["lane"]):
        raise refused(op, "these rows", "each thread of a warp must know four in a row")
    if layout.columns["block"] != tuple(row * part[0] for row, _ in memory.cga):
        raise refused(op, "rows whose numbers other blocks of the cluster have", "divide them as the buffer is divided")
    units = 1 + memory.fp4_padded  # elements of memory for each of the tile's
    of_block = lowerer.linear({"block": [step * part[1] * units for _, step in memory.cga]})
    start = added(lowerer, _inner_coordinate(lowerer, op.column, buffer), of_block, "add")
    registers, base = lowerer.registers(op.rows), buffer_pointer(lowerer, buffer)
    *_, box = tma_box(memory, part)
    own = uniform_bits(lowerer, [_row_offset(type, part, column, 0) for column in layout.columns["warp"]])
    pointer, free = offset(lowerer, base, own), layout.free_masks()["register"]
    for first in range(0, len(registers), ROWS):
        if first & free:
            continue
        row = layout.image({"register": first})
        for column in range(0, part[-1], box):
            place = offset(lowerer, pointer, _row_offset(type, part, row, column))
            yield Rows(registers[first : first + ROWS], place, added(lowerer, start, str(column * units), "add"))


def _row_offset(type: MemDescType, part: Sequence[int], row: int, column: int) -> int:
    """The byte of the first element that the engine writes of these rows, before it swizzles; a block has `part`."""
    memory = encoding_as(NvmmaShared, type.encoding)
    box = tma_box(memory, tuple(part))
    width, height = box[-1], part[0]
    inside, outside = row % box[0], row // box[0]
    start = (outside * (part[-1] // width) + column // width) * box[0] * width + inside * width
    assert height % box[0] == 0, "boxes fill the tile"
    return start * byte_size(type) * (1 + memory.fp4_padded)


def _chosen_warps(lowerer: Lowerer, rows: Value) -> str:
    """One thread of each warp whose rows no other warp has."""
    free, one = lowerer.layout(rows).free_masks()["warp"], elected(lowerer, lowerer.target.num_warps)
    if not free:
        return one
    w = lowerer.w
    alone = w.emit(f"icmp eq i32 {w.emit(f'and i32 {lowerer.warp()}, {free}')}, 0")
    return w.emit(f"and i1 {one}, {alone}")


def _gather_rows(lowerer: Lowerer, op: AsyncTmaGather) -> None:
    condition = on_condition(lowerer, _chosen_warps(lowerer, op.rows), op.predicate)
    for rows in _rows(lowerer, op):
        _to_shared(lowerer, op, "2d.tile::gather4", condition, rows.pointer, [rows.column, *rows.numbers])


def _scatter_rows(lowerer: Lowerer, op: AsyncTmaScatter) -> None:
    condition, name = _chosen_warps(lowerer, op.rows), "cp.async.bulk.tensor.2d.tile::scatter4.global.shared::cta"
    condition = first_of(lowerer, copies_of(buffer_type(op.buffer)), condition)
    for rows in _rows(lowerer, op):
        _from_shared(lowerer, op, name, condition, rows.pointer, [rows.column, *rows.numbers])
    commit(lowerer)


LOWERINGS: dict[str, Lowering] = {
    "ttng.reinterpret_tensor_descriptor": _reinterpret,
    "ttng.tensormap_create": _create,
    "ttng.tensormap_fenceproxy_acquire": _acquire,
    "ttng.async_tma_copy_global_to_local": _load,
    "ttng.async_tma_copy_local_to_global": lambda lowerer, op: _to_memory(
        lowerer, op, "cp.async.bulk.tensor.{rank}d.global.shared::cta"
    ),
    "ttng.async_tma_reduce": _reduce,
    "ttng.async_tma_store_wait": _store_wait,
    "ttng.async_tma_gather": _gather_rows,
    "ttng.async_tma_scatter": _scatter_rows,
}
