"""Descriptors that partitions make in loops get several slots in memory, used in turn.

    partition2 {                                       partition2 {
      for %g … {                                         %m = ttg.global_scratch_alloc {nbytes = 384}
        %d = tt.make_tensor_descriptor …                 for %g … iter_args(%n = 0, %used = false) {
        for %k … {                                ->       %i = %used ? (%n + 1) mod 3 : %n
          ttng.async_tma_copy_global_to_local %d, …        ttng.tensormap_create %m + 128 * %i, …
        }                                                  %u = for %k … iter_args(false) { copy; yield true }
      }                                                    yield %i, %u
    }                                                    }
                                                       }

A running copy may still read its descriptor, so the next one gets another slot. Copies fill rings of buffers, and one
that fills a slot again waits until the previous copy has been used; so at most as many copies run as a ring has slots.
A descriptor that no copy used leaves its slot to the next one. One slot more than the rings have is enough.

A flattened loop makes descriptors in a branch and carries them, and copies by them in each iteration:

    %d = scf.if %first { %n = tt.make_tensor_descriptor …; yield %n } else { yield %carried }; copy %d; yield %d

There each new one takes the next slot. The previous user of the slot went out of use as many iterations ago as there
are other slots, so its last copy is complete. If copies after the branch use `%carried`, it is in use for one more
iteration, which takes one more slot, unless the branch can be moved after them.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.dialects.nvws import WarpGroup
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_descriptors import MakeTensorDescriptor
from tilewright.dialects.ttg_memory import MemDescIndex
from tilewright.dialects.ttng_descriptors import DescriptorCopy
from tilewright.ir.core import Block, Op, Value, buffer_type
from tilewright.ir.effects import is_pure
from tilewright.ir.types import MemDescType, i1, i32
from tilewright.transforms.gpu.pipelining.schedule import Writer
from tilewright.transforms.gpu.tma_lowering import DESCRIPTOR_BYTES, descriptor_memory, write_descriptor
from tilewright.transforms.gpu.warp_specialization.carried_counters import Counters, ops_around
from tilewright.transforms.matching import is_after, uses_of


class HandedOn(NamedTuple):
    """A descriptor that a branch in the body of `loop` makes, or takes over from the previous iteration.

    Attributes:
        branch: the branch.
        loop: the loop.
        accesses: the ops that use what the branch gives.
        late: the ops that use what the previous iteration has left.
    """

    branch: If
    loop: For
    accesses: list[Op]
    late: list[Op]


def handed_on(maker: MakeTensorDescriptor) -> HandedOn | None:
    """How the descriptor of `maker` is carried by a loop, if each that is made replaces the one before."""
    ends = uses_of(maker.result)
    branch, loop = maker.parent, maker.parent.parent if maker.parent is not None else None
    if len(ends) != 1 or not isinstance(branch, If) or not isinstance(loop, For):
        return None
    (end, number), last = ends[0], loop.body.terminator
    other = next((arm.block.terminator for arm in branch.arms if arm.block is not maker.block), None)
    if other is None or end.block is not maker.block or not end.definition.terminator:
        return None
    users = uses_of(branch.results[number])
    places = [place for user, place in users if user is last]
    if len(places) != 1 or loop.results[places[0]].uses:
        return None
    carried = loop.carried[places[0]]
    if other.operands[number] is not carried:
        return None
    late = [user for user, place in uses_of(carried) if (user, place) != (other, number)]
    return HandedOn(branch, loop, [user for user, _ in users if user is not last], late)


def descriptor_rings(module: Op) -> bool:
    """Give each descriptor that a partition of `module` makes in a loop a ring of slots."""
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
    own, way = maker.block, handed_on(maker)
    if own is None or own is partition:
        return False
    if way is not None:
        stays = any(isinstance(user, DescriptorCopy) and is_after(user, way.branch) for user in way.late)
        _take_turns(maker, partition, places + (stays and not _sink(way)))
        return True
    blocks = {user.block for user in maker.result.uses}
    used = blocks.pop() if len(blocks) == 1 else None
    if used is None:
        return False
    ring = _Ring(maker, partition, places)
    no, yes = ring.front.constant(0, i1), ring.front.constant(1, i1)
    turn = Counters(own, partition, (ring.zero, no))
    place, was_used = turn.values
    at = Writer(maker)
    place = at.compute("arith.select", was_used, ring.after(at, place), place)
    descriptor = ring.write(at, maker, place)
    is_used = Counters(used, own, (no,)).hand_on([yes])
    turn.hand_on([place, *is_used])
    maker.replace([descriptor])
    return True


def _sink(way: HandedOn) -> bool:
    """Move the branch to the end of the iteration, behind the copies, if only the next iteration needs its result."""
    end = way.loop.body.terminator
    if not is_pure(way.branch) or any(user is not end for result in way.branch.results for user in result.uses):
        return False
    way.branch.unlink()
    way.loop.body.insert(way.branch, before=end)
    return True


def _take_turns(maker: MakeTensorDescriptor, partition: Block, places: int) -> None:
    """Replace `maker`, whose descriptor is carried by a loop: each that it makes takes the next place."""
    ring = _Ring(maker, partition, places)
    assert maker.block is not None, "the maker stands in a branch"
    turn = Counters(maker.block, partition, (ring.zero,))
    at = Writer(maker)
    place = ring.after(at, turn.values[0])
    descriptor = ring.write(at, maker, place)
    turn.hand_on([place])
    maker.replace([descriptor])


class _Ring:
    """Memory for `count` descriptors before all loops around `maker`."""

    def __init__(self, maker: MakeTensorDescriptor, partition: Block, count: int) -> None:
        assert maker.block is not None, "the maker stands in a loop"
        self.front = Writer(ops_around(maker.block, partition)[0])
        self.memory = descriptor_memory(self.front, count)
        numbers = (self.front.constant(number, i32) for number in (0, 1, count, DESCRIPTOR_BYTES))
        self.zero, self.one, self.count, self.size = numbers

    def after(self, at: Writer, place: Value) -> Value:
        """The place after `place`."""
        return at.next_of(place, self.count, self.zero, self.one)[0]

    def write(self, at: Writer, maker: MakeTensorDescriptor, place: Value) -> Value:
        """Write what `maker` describes to `place`; returns the descriptor."""
        offset = at.compute("arith.muli", place, self.size)
        return _write(at, maker, at.emit("tt.addptr", (self.memory, offset), self.memory.type))


def _write(at: Writer, maker: MakeTensorDescriptor, address: Value) -> Value:
    """Write what `maker` describes to `address`; returns the descriptor."""
    write_descriptor(at, maker, address)
    at.op("ttng.tensormap_fenceproxy_acquire", (address,))
    return at.emit("ttng.reinterpret_tensor_descriptor", (address,), maker.result.type)
