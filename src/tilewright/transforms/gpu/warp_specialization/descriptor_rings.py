"""Descriptors that partitions make in loops get several places in memory, used in turn.

    partition2 {                                       partition2 {
      for %g … {                                         %m = ttg.global_scratch_alloc {nbytes = 384}
        %d = tt.make_tensor_descriptor …                 for %g … iter_args(%n = 0, %used = false) {
        for %k … {                                ->       %i = %used ? (%n + 1) mod 3 : %n
          ttng.async_tma_copy_global_to_local %d, …        ttng.tensormap_create %m + 128 * %i, …
        }                                                  %u = for %k … iter_args(false) { copy; yield true }
      }                                                    yield %i, %u
    }                                                    }
                                                       }

A copy that is under way may still read its descriptor, so the next one gets another place. Copies fill rings of
buffers, and one that fills a place again waits until the copy before has been used; as many are under way as a ring has
places. A descriptor that no copy used leaves its place to the next one. One place more than the rings have is enough.
"""

from __future__ import annotations

from tilewright.dialects.nvws import WarpGroup
from tilewright.dialects.tt_descriptors import MakeTensorDescriptor
from tilewright.dialects.ttg_memory import MemDescIndex
from tilewright.dialects.ttng_descriptors import DescriptorCopy
from tilewright.ir.core import Block, Op, Value, buffer_type
from tilewright.ir.types import MemDescType, i1, i32
from tilewright.transforms.gpu.pipelining.schedule import Writer
from tilewright.transforms.gpu.tma_lowering import DESCRIPTOR_BYTES, descriptor_memory, write_descriptor
from tilewright.transforms.gpu.warp_specialization.carried_counters import Counters, ops_around


def descriptor_rings(module: Op) -> bool:
    """Give each descriptor that a partition of `module` makes in a loop a ring of places."""
    changed = False
    for group in module.ops_of(WarpGroup):
        places = 1 + max(map(_places_filled, group.ops_of(DescriptorCopy)), default=1)
        for region in group.regions:
            for maker in [op for op in region.walk() if isinstance(op, MakeTensorDescriptor)]:
                changed |= _lower(maker, region.block, places)
    return changed


def _places_filled(copy: DescriptorCopy) -> int:
    """The number of places of the ring that `copy` fills."""
    views = [value.op for value in copy.operands if isinstance(value.type, MemDescType)]
    return max((buffer_type(view.source).shape[0] for view in views if isinstance(view, MemDescIndex)), default=1)


def _lower(maker: MakeTensorDescriptor, partition: Block, places: int) -> bool:
    """Replace `maker`, if it is in a loop, and one block has all accesses through the descriptor."""
    blocks = {user.block for user in maker.result.uses}
    used, own = blocks.pop() if len(blocks) == 1 else None, maker.block
    if used is None or own is None or own is partition:
        return False
    front = Writer(ops_around(own, partition)[0])
    memory = descriptor_memory(front, places)
    zero, one, count, size = (front.constant(number, i32) for number in (0, 1, places, DESCRIPTOR_BYTES))
    no, yes = front.constant(0, i1), front.constant(1, i1)
    turn = Counters(own, partition, (zero, no))
    place, was_used = turn.values
    at = Writer(maker)
    after, _ = at.next_of(place, count, zero, one)
    place = at.compute("arith.select", was_used, after, place)
    descriptor = _write(at, maker, at.emit("tt.addptr", (memory, at.compute("arith.muli", place, size)), memory.type))
    is_used = Counters(used, own, (no,)).hand_on([yes])
    turn.hand_on([place, *is_used])
    maker.replace([descriptor])
    return True


def _write(at: Writer, maker: MakeTensorDescriptor, address: Value) -> Value:
    """Write what `maker` describes to `address`; returns the descriptor."""
    write_descriptor(at, maker, address)
    at.op("ttng.tensormap_fenceproxy_acquire", (address,))
    return at.emit("ttng.reinterpret_tensor_descriptor", (address,), maker.result.type)
