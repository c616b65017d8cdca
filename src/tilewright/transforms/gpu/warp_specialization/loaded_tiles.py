"""Loaded tiles that threads compute with go through shared memory, so that the copy partition can load ahead.

    %x = tt.descriptor_load %d       %y = tt.descriptor_load %d     {ttg.partition = 2}
    "use"(%x)                  ->    %b = ttg.local_alloc %y        {ttg.partition = 2}
                                     %x = ttg.local_load %b         {ttg.partition = 0}
                                     "use"(%x)                      {ttg.partition = 0}

As in Triton, these are loads by descriptor in innermost loops with several stages, on devices with tensor memory, and
they run ahead of stores by pointers, as they do in any pipelined loop. A loop that writes by descriptor keeps its loads
where they are, because both may be views of one tensor. So does one whose rings would not fit into shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tilewright.dialects.scf import For
from tilewright.dialects.traits import Loop
from tilewright.dialects.tt_descriptors import DescriptorRead, DescriptorWrite
from tilewright.dialects.ttg_memory import LocalAlloc
from tilewright.ir.core import Value, tile_type
from tilewright.ir.types import MemDescType, TensorType, Type
from tilewright.transforms.gpu.pipelining.lower_products import BARRIERS, SHARED_MEMORY
from tilewright.transforms.gpu.tile_ops import capability_of, module_of
from tilewright.transforms.gpu.tma_lowering import buffer_layout
from tilewright.transforms.gpu.warp_specialization.channels import (
    TENSOR_MEMORY,
    UnknownAccessError,
    product_buffers,
    source_of,
)
from tilewright.transforms.op_builder import OpBuilder


class InMemory(NamedTuple):
    """A tile that a loop loads, and the buffer from which threads read it."""

    tile: Value
    buffer: Value


def put_into_memory(loop: For, stages: int) -> list[InMemory]:
    """Let threads read the tiles that `loop` loads by descriptor from buffers.

    Args:
        loop: the loop to be divided.
        stages: how many places the rings of copies will have.

    Returns:
        the tiles with their buffers; none if the loop keeps its loads as they are.
    """
    if stages < 2 or capability_of(module_of(loop)) < TENSOR_MEMORY or loop.ops_of(DescriptorWrite):
        return []
    loads = [load for load in loop.ops_of(DescriptorRead) if _is_for_threads(load)]
    types = [_buffer_of(load) for load in loads]
    if not _have_room(loop, types, stages):
        return []
    return [_read_from_buffer(load, type) for load, type in zip(loads, types, strict=True)]


def take_from_memory(tiles: Sequence[InMemory]) -> None:
    """Undo `put_into_memory`, which gave `tiles`."""
    for tile, buffer in tiles:
        for read in list(buffer.uses):
            read.replace([tile])
        for alloc in list(tile.uses):
            if buffer in alloc.results:
                alloc.erase()


def bytes_of(type: Type) -> int:
    """The size of a tile or buffer, in bytes."""
    return prod(type.shape) * type.bits // 8 if isinstance(type, (TensorType, MemDescType)) else 0


def _is_for_threads(load: DescriptorRead) -> bool:
    """Whether `load` is in an innermost loop, and only threads use its tile."""
    around = load.parent
    innermost = isinstance(around, For) and not any(isinstance(op, Loop) for op in around.body)
    return innermost and bool(load.result.uses) and not any(isinstance(user, LocalAlloc) for user in load.result.uses)


def _buffer_of(load: DescriptorRead) -> MemDescType:
    tile = tile_type(load.result)
    return MemDescType(tile.shape, tile.element, buffer_layout(load.descriptor, tile).text)


def _have_room(loop: For, types: Sequence[MemDescType], stages: int) -> bool:
    """Whether rings for buffers of these types fit into shared memory beside those of products."""
    try:
        others = product_buffers(loop)
    except UnknownAccessError:
        return False
    rings = [*types, *(op.result.type for op in others if isinstance(op, LocalAlloc) and source_of(op) is not None)]
    once = [op.result.type for op in others if isinstance(op, LocalAlloc) and source_of(op) is None]
    return stages * sum(map(bytes_of, rings)) + sum(map(bytes_of, once)) + BARRIERS <= SHARED_MEMORY


def _read_from_buffer(load: DescriptorRead, type: MemDescType) -> InMemory:
    tile, users = load.result, list(load.result.uses)
    at = OpBuilder.after(load)
    buffer = at.emit("ttg.local_alloc", (tile,), type)
    read = at.emit("ttg.local_load", (buffer,), tile.type)
    for user in users:
        user.set_operands([read if value is tile else value for value in user.operands])
    return InMemory(tile, buffer)
