"""Descriptors made in a pipelined loop get several slots in memory, used in turn.

    scf.for … {                                          %m = ttg.global_scratch_alloc {nbytes = 256}
      %d = tt.make_tensor_descriptor …           ->      scf.for … iter_args(%i = 0) {
      use(%d)                                              %p = tt.addptr %m, %i * 128
    }                                                      ttng.tensormap_create %p, …
                                                           %d = ttng.reinterpret_tensor_descriptor %p
                                                           use(%d); %i = (%i + 1) mod 2

A running copy reads the descriptor of an earlier iteration while the next one is written.

Stores by descriptor in a loop become asynchronous.

    scf.for … {                                    %b = ttg.local_alloc
      tt.descriptor_store %d[%i], %x        ->     scf.for … {
    }                                                ttng.async_tma_store_wait {pendings = 0, read_only}
                                                     ttg.local_store %x, %b
                                                     ttng.fence_async_shared
                                                     ttng.async_tma_copy_local_to_global %d[%i] %b
                                                   }
                                                   ttng.async_tma_store_wait {pendings = 0}

The buffer may be written again as soon as the previous store has read it. Stores of tiles of one type share a buffer.
In a loop that may read or overwrite stored elements, each store is complete before the loop continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tilewright.analysis.memory_origins import global_accesses, reads_what_is_written
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import Atomic, Loop
from tilewright.dialects.tt_descriptors import (
    BlockWrite,
    DescriptorReduce,
    DescriptorWrite,
    MakeTensorDescriptor,
    descriptor_type,
)
from tilewright.dialects.ttng_mma import WarpGroupDot
from tilewright.ir.attributes import UNIT, Number
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.ir.types import MemDescType, Type, i32
from tilewright.transforms.carried_values import add_result
from tilewright.transforms.gpu.pipelining.schedule import Schedule, Writer, body_of, carry, hand_on
from tilewright.transforms.gpu.tma_lowering import (
    DESCRIPTOR_BYTES,
    buffer_layout,
    descriptor_memory,
    start_writing,
    write_descriptor,
)
from tilewright.transforms.matching import binary_of, constant_of, is_inside
from tilewright.transforms.op_builder import OpBuilder


def lower_descriptors(loop: For, schedule: Schedule) -> None:
    """Give each descriptor that `loop` makes a ring of places."""
    makers = _makers(loop.body)
    if not makers:
        return
    # A product that runs on is one stage longer than the schedule says.
    runs_on = any(isinstance(op, WarpGroupDot) for op in body_of(loop))
    count = max(1, schedule.stages - 1 + runs_on)
    for maker in makers:
        _Ring(loop, schedule, maker, count).lower()


def _makers(block: Block) -> list[MakeTensorDescriptor]:
    """The ops of `block`, and of branches in it, that make a descriptor."""
    found = []
    for op in block:
        if isinstance(op, MakeTensorDescriptor):
            found.append(op)
        elif isinstance(op, If):
            found += [maker for region in op.regions for inner in region.blocks for maker in _makers(inner)]
    return found


class _Ring:
    """The `count` places of the descriptor that `maker` makes in `loop`."""

    def __init__(self, loop: For, schedule: Schedule, maker: MakeTensorDescriptor, count: int) -> None:
        self.loop, self.schedule, self.maker, self.count = loop, schedule, maker, count

    def lower(self) -> None:
        """Replace the maker."""
        maker, slot = self.maker, self.schedule.slots.get(self.maker)
        type = maker.result.type
        front = OpBuilder(self.loop)
        memory = descriptor_memory(front, self.count)
        zero, one, count = (front.constant(number, i32) for number in (0, 1, self.count))
        bytes = front.constant(DESCRIPTOR_BYTES, i32)
        counter = carry(self.loop, zero)
        at = Writer(maker, self.schedule, slot)
        offset = at.compute("arith.muli", counter, bytes)
        place = at.emit("tt.addptr", (memory, offset), memory.type)
        last = maker.previous
        write_descriptor(OpBuilder(maker), maker, place)
        self._schedule_since(last)
        at.op("ttng.tensormap_fenceproxy_acquire", (place,))
        descriptor = at.emit("ttng.reinterpret_tensor_descriptor", (place,), type)
        following, _ = at.next_of(counter, count, zero, one)
        hand_on(self.loop, counter, self._carried_out(counter, following))
        self.schedule.slots.pop(maker, None)
        maker.replace([descriptor])

    def _schedule_since(self, last: Op | None) -> None:
        """Give the ops between `last` and the maker its slot."""
        slot, op = self.schedule.slots.get(self.maker), self.maker.previous
        while slot is not None and op is not None and op is not last:
            self.schedule.insert(op, slot)
            op = op.previous

    def _carried_out(self, old: Value, new: Value) -> Value:
        """`new` as the body of the loop sees it, `old` where the branch of the maker is not taken."""
        block = self.maker.block
        while block is not None and block is not self.loop.body:
            branch = block.region.op if block.region is not None else None
            assert branch is not None, "a branch of the loop"
            new = with_result(branch, block, new, old)
            block = branch.block
        return new


def with_result(branch: Op, arm: Block, taken: Value, other: Value) -> Value:
    """Give an `scf.if` one more result: `taken` if `arm` runs."""
    blocks: Sequence[Block] = [block for region in branch.regions for block in region.blocks]
    if len(blocks) == 1:
        block = branch.regions[1].add(Block())
        block.append(Op.create("scf.yield", location=branch.location))
        blocks = [*blocks, block]
    for block in blocks:
        end = block.terminator
        end.set_operands([*end.operands, taken if block is arm else other])
    return add_result(branch, taken.type)


STAGES = 3
"""The number of stages assumed for the loop: two descriptors are used in turn."""


def pipeline_stores(loop: Loop) -> None:
    """Let the stores by descriptor in `loop`, but not in loops inside, run on."""
    stores = _stores(loop.regions[-1].block)
    if not stores or any(isinstance(op, Atomic) and op.sem != "relaxed" for op in loop.walk()):
        return
    if reads_what_is_written(loop) or _may_overwrite(stores, loop):
        return
    makes_descriptors = any(store.descriptor.op is not None for store in stores)
    buffers: dict[tuple[object, Type], Value] = {}
    for store in stores:
        tile = tile_type(store.value)
        key = tile.shape, tile.element
        if key not in buffers:
            layout = buffer_layout(store.descriptor, tile)
            type = MemDescType(tile.shape, tile.element, layout.text, mutable=True)
            buffers[key] = OpBuilder(loop).emit("ttg.local_alloc", (), type)
        _store(store, buffers[key])
    after = OpBuilder.after(loop)
    after.op("ttng.async_tma_store_wait", (), (), {"pendings": Number(0, i32)})
    for buffer in buffers.values():
        after.op("ttg.local_dealloc", (buffer,))
    if makes_descriptors and isinstance(loop, For):
        lower_descriptors(loop, Schedule(STAGES))


def _may_overwrite(stores: Sequence[DescriptorWrite], loop: Loop) -> bool:
    """Whether a store of `loop` may write where one before has written: nothing orders copies that run on.

    Stores in different iterations are apart if their addresses change across iterations.
    """
    if any(not isinstance(store, DescriptorReduce) and not _moves(store, loop) for store in stores):
        return True
    accesses = {access.op: access for access in global_accesses(loop)}
    pairs = combinations(stores, 2)
    return any(accesses[one].may_meet(accesses[other]) and not _are_apart(one, other) for one, other in pairs)


def _moves(store: DescriptorWrite, loop: Loop) -> bool:
    """Whether `store` writes elsewhere in each iteration of `loop`."""
    return any(is_inside(value, loop) for value in store.operands if value is not store.value)


def _are_apart(one: DescriptorWrite, other: DescriptorWrite) -> bool:
    """Whether two stores through one descriptor write blocks at a constant distance along an axis, or combine alike."""
    if isinstance(one, DescriptorReduce) and isinstance(other, DescriptorReduce) and one.operation == other.operation:
        return True  # each sum counts, whatever the order
    if one.descriptor is not other.descriptor or not (isinstance(one, BlockWrite) and isinstance(other, BlockWrite)):
        return False
    extents = descriptor_type(one, one.descriptor).block.shape
    for a, b, extent in zip(one.indices, other.indices, extents, strict=True):
        (base, start), (other_base, other_start) = _with_constant(a), _with_constant(b)
        if base is other_base and abs(start - other_start) >= extent:
            return True
    return False


def _with_constant(index: Value) -> tuple[Value | None, int]:
    """The value that a constant is added to, and the constant."""
    constant = constant_of(index)
    if constant is not None:
        return None, int(constant)
    added = binary_of(index, "arith.addi")
    second = None if added is None else constant_of(added.rhs)
    return (index, 0) if added is None or second is None else (added.lhs, int(second))


def _stores(block: Block) -> list[DescriptorWrite]:
    found = []
    for op in block:
        if isinstance(op, DescriptorWrite):
            found.append(op)
        elif not isinstance(op, Loop):
            found += [store for region in op.regions for inner in region.blocks for store in _stores(inner)]
    return found


def _store(store: DescriptorWrite, buffer: Value) -> None:
    at = OpBuilder(store)
    at.op("ttng.async_tma_store_wait", (), (), {"pendings": Number(0, i32), "read_only": UNIT})
    at.op("ttg.local_store", (store.value, buffer))
    at.op("ttng.fence_async_shared", (), (), {"bCluster": False})
    start_writing(at, store, buffer)
    store.erase()
