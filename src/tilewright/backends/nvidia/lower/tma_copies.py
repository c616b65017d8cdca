"""Copies by the tensor memory accelerator: boxes of a tensor in global memory to and from buffers in shared memory.

    ttng.async_tma_copy_global_to_local %d[%i, %j] %buffer, %barrier, %p

    @%e cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [ %s ], [ %d, { %j, %i } ], [ %b ];

One instruction copies one box: rows as long as the swizzle, 256 of them at most. Of a tile of several boxes each warp
starts some: what differs between them is a linear map of the number of the warp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.buffers import buffer_layout, buffer_pointer, byte_size, shared_layout
from tilewright.backends.nvidia.lower.dot.operands_in_memory import uniform_bits
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.mbarriers import barrier_address, elected, on_condition
from tilewright.backends.nvidia.lower.shared_tiles import offset
from tilewright.dialects.ttng_descriptors import (
    AsyncTmaCopyGlobalToLocal,
    AsyncTmaCopyLocalToGlobal,
    AsyncTmaReduce,
    AsyncTmaStoreWait,
)
from tilewright.ir.core import Value, buffer_type
from tilewright.ir.spans import span_of
from tilewright.ir.types import MemDescType
from tilewright.layouts.conversion import TMA_BOX, tma_box
from tilewright.layouts.linear_layout import log2
from tilewright.layouts.queries import shape_per_cta
from tilewright.layouts.shared import NvmmaShared
from tilewright.support.diagnostics import NotSupported, located

BlockCopy: TypeAlias = AsyncTmaCopyGlobalToLocal | AsyncTmaCopyLocalToGlobal | AsyncTmaReduce
MIN_ROW = 16
"""Min bytes along the last dimension that the accelerator moves."""
OWN_BLOCK_SINCE = 86
"""The first version of PTX in which a copy may name the own block's memory as target, not the cluster's."""


def target_space(lowerer: Lowerer) -> str:
    """The name of shared memory as the target of copies."""
    return "cta" if lowerer.target.ptx >= OWN_BLOCK_SINCE else "cluster"


class Boxes(NamedTuple):
    """The boxes of a tile.

    Attributes:
        offsets: per bit of the number of a box, in bytes, where it lies in the buffer; added by XOR.
        places: per dimension and bit, where it lies in the block's part of the tile.
        parts: per dimension and bit of the number of the block, where its part begins.
        copies: a mask of bits of the block that lead to other copies of the same part.
        row: bytes of a box along the last dimension.
    """

    offsets: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[int, ...], ...]
    copies: int
    row: int


@cache
def boxes_of(type: MemDescType) -> Boxes:
    """The boxes in which a buffer's tile is copied."""
    layout, shape = shared_layout(type), tuple(type.shape)
    extents = tuple(shape_per_cta(layout, shape))
    padded = isinstance(layout, NvmmaShared) and layout.fp4_padded
    box = tma_box(layout, extents) if isinstance(layout, NvmmaShared) else tuple(min(e, TMA_BOX) for e in extents)
    memory = buffer_layout(type)
    rows = [
        tuple(size << bit if other == axis else 0 for other in range(len(shape)))
        for axis, size in enumerate(box)
        for bit in range(log2(extents[axis] // size))
    ]
    inverse = memory.pseudo_invert()
    offsets = tuple(inverse.unpack(inverse.image(dict(zip(memory.out_names, row, strict=True))))[0] for row in rows)
    places, parts = _per_dimension(rows, shape, padded), _per_dimension(memory.bases["block"], shape, padded)
    copies = memory.free_masks()["block"]
    row = box[-1] * byte_size(type) * (2 if padded else 1)
    return Boxes(tuple(start * byte_size(type) for start in offsets), places, parts, copies, row)


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
    boxes, base = boxes_of(buffer_type(buffer)), buffer_pointer(lowerer, buffer)
    if boxes.row < MIN_ROW:
        reason = f"the engine moves rows of {MIN_ROW} bytes at least; each of the {lowerer.target.num_ctas} blocks of"
        reason += f" the cluster has {boxes.row}: take wider blocks, or num_ctas=1"
        raise located(NotSupported("this copy", reason), span_of(op.location))
    bits = len(boxes.offsets)
    shared = min(bits, log2(lowerer.target.num_warps))
    condition = elected(lowerer, 1 << shared)
    starts = [_coordinate(lowerer, value, buffer, axis) for axis, value in enumerate(op.indices)]
    own = [uniform_bits(lowerer, columns[:shared]) for columns in boxes.places]
    of_block = [lowerer.linear({"block": columns}) for columns in boxes.parts]
    for more in (own, of_block):
        starts = [plus(lowerer, start, part) for start, part in zip(starts, _padded(more, len(starts)), strict=True)]
    pointer = offset(lowerer, base, uniform_bits(lowerer, boxes.offsets[:shared]))
    for turn in range(1 << bits - shared):
        fixed = [_image(columns[shared:], turn) for columns in boxes.places]
        places = [plus(lowerer, a, str(b)) for a, b in zip(starts, _padded(fixed, len(starts)), strict=True)]
        yield Message(condition, offset(lowerer, pointer, _image(boxes.offsets[shared:], turn)), places[::-1])


def _padded(parts: Sequence[str | int], count: int) -> list[str]:
    """A buffer may have fewer dimensions than the tensor; those in front are one wide."""
    return ["0"] * (count - len(parts)) + [str(part) for part in parts]


def _coordinate(lowerer: Lowerer, value: Value, buffer: Value, axis: int) -> str:
    type = buffer_type(buffer)
    layout = shared_layout(type)
    start = lowerer.scalar(value)
    is_packed = isinstance(layout, NvmmaShared) and layout.fp4_padded and axis == len(type.shape) - 1
    return lowerer.w.emit(f"shl i32 {start}, 1") if is_packed else start


def _image(columns: Sequence[int], number: int) -> int:
    found = 0
    for bit, column in enumerate(columns):
        found ^= column if number >> bit & 1 else 0
    return found


def plus(lowerer: Lowerer, first: str, second: str) -> str:
    """The sum of two i32."""
    if "0" in (first, second):
        return second if first == "0" else first
    return lowerer.w.emit(f"add i32 {first}, {second}")


def emit(lowerer: Lowerer, text: str, operands: Sequence[tuple[str, Typed]]) -> None:
    """An instruction; each operand comes with its constraint."""
    constraints = ",".join(constraint for constraint, _ in operands)
    lowerer.assembly("void", text, constraints, [typed for _, typed in operands])


def listed(first: int, count: int) -> str:
    """Operands in braces: where something is in a tensor."""
    return f"{{ {', '.join(f'${first + place}' for place in range(count))} }}"


def _load(lowerer: Lowerer, op: AsyncTmaCopyGlobalToLocal) -> None:
    """The bytes that arrive are counted by the barrier."""
    if op.multicast or op.offsets:
        raise located(NotSupported("this copy", "it is for several blocks, or of an image"), span_of(op.location))
    rank, to = len(op.indices), target_space(lowerer)
    descriptor, barrier, predicate = op.descriptor, op.barrier, op.predicate
    text = (
        f"@$0 cp.async.bulk.tensor.{rank}d.shared::{to}.global.mbarrier::complete_tx::bytes "
        f"[ $1 ], [ $2, {listed(4, rank)} ], [ $3 ];"
    )
    for message in _messages(lowerer, op):
        emit(
            lowerer,
            text,
            [
                ("b", ("i1", on_condition(lowerer, message.condition, predicate))),
                ("r", (SHARED_POINTER, message.pointer)),
                ("l", ("ptr", lowerer.scalar(descriptor))),
                ("r", (SHARED_POINTER, barrier_address(lowerer, barrier))),
                *(("r", ("i32", place)) for place in message.places),
            ],
        )


def _to_memory(lowerer: Lowerer, op: AsyncTmaCopyLocalToGlobal | AsyncTmaReduce, kind: str) -> None:
    """Write copies from shared memory, as a group that one can wait for."""
    rank = len(op.indices)
    text = f"@$0 {kind.format(rank=rank)}.bulk_group [ $1, {listed(3, rank)} ], [ $2 ];"
    copies = boxes_of(buffer_type(op.buffer)).copies
    for message in _messages(lowerer, op):
        emit(
            lowerer,
            text,
            [
                ("b", ("i1", _of_first_block(lowerer, message.condition, copies))),
                ("l", ("ptr", lowerer.scalar(op.descriptor))),
                ("r", (SHARED_POINTER, message.pointer)),
                *(("r", ("i32", place)) for place in message.places),
            ],
        )
    commit(lowerer)


def _of_first_block(lowerer: Lowerer, condition: str, copies: int) -> str:
    """The condition, in one of the blocks that have the same part of the tile."""
    if not copies:
        return condition
    bits = lowerer.w.emit(f"and i32 {lowerer.block_in_cluster()}, {copies}")
    return lowerer.w.emit(f"and i1 {condition}, {lowerer.w.emit(f'icmp eq i32 {bits}, 0')}")


def commit(lowerer: Lowerer) -> None:
    """All copies from shared memory so far are a group."""
    lowerer.w.call_void("llvm.nvvm.cp.async.bulk.commit.group", [])


def _store(lowerer: Lowerer, op: AsyncTmaCopyLocalToGlobal) -> None:
    _to_memory(lowerer, op, "cp.async.bulk.tensor.{rank}d.global.shared::cta")


def _reduce(lowerer: Lowerer, op: AsyncTmaReduce) -> None:
    _to_memory(lowerer, op, f"cp.reduce.async.bulk.tensor.{{rank}}d.global.shared::cta.{op.operation}")


def _store_wait(lowerer: Lowerer, op: AsyncTmaStoreWait) -> None:
    """Wait until all but so many groups have been read; the memory that they were read from may be overwritten."""
    lowerer.w.call_void("llvm.nvvm.cp.async.bulk.wait.group.read", [("i32", str(op.pendings))])


LOWERINGS: dict[str, Lowering] = {
    "ttng.async_tma_copy_global_to_local": _load,
    "ttng.async_tma_copy_local_to_global": _store,
    "ttng.async_tma_reduce": _reduce,
    "ttng.async_tma_store_wait": _store_wait,
}
