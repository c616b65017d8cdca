"""The order of accesses to global memory by partitions: what one has stored, another one reads in a later round.

    scf.for %tile … {                                  reads of partition 2, in each round of the loop:
      scf.for %k … { copy of %a {2}, product {1} }     they wait until the stores of the previous round are complete
      tt.descriptor_store %c {0}                       writes: they wait until partition 2 has passed its reads
    }

`%a` and `%c` may be one matrix, if both come from one table of pointers for instance. In program order a round reads
first and stores then. The default partition and each one that reads take turns, as with a buffer that they share; so
the partition of copies runs ahead within a round, but not into the next one.

A store may come only when the reads of its round are complete. Numbers have been loaded when their partition arrives. A
copy is complete when the partition that uses it has waited for it; if that is the partition of products, a sum that it
has handed to the default partition afterwards proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.analysis.memory_origins import reads_after_writes
from tilewright.dialects.scf import For
from tilewright.dialects.tt_descriptors import DescriptorRead, DescriptorWrite
from tilewright.dialects.tt_memory import Store
from tilewright.ir.core import Block, Op
from tilewright.transforms.gpu.warp_specialization.channels import (
    PRODUCTS,
    Channel,
    Segment,
    UnknownAccessError,
    common_block,
    load_of,
)
from tilewright.transforms.gpu.warp_specialization.slices import DEFAULT, STAGES, partitions_of_op, roles_of


class Order(NamedTuple):
    """The accesses of a round: in each execution of `block`, `writes` follows `reads`, and precedes the next reads.

    Attributes:
        block: the block whose executions are the rounds.
        reads: the part of a round in which a partition reads.
        writes: the part in which the default partition writes.
        copies_out: whether copies by descriptor write.
        fenced: whether copies by descriptor read what threads write.
    """

    block: Block
    reads: Segment
    writes: Segment
    copies_out: bool
    fenced: bool


def orders_of(loop: For, channels: Sequence[Channel]) -> list[Order]:
    """The orders that the partitions of `loop`, which hand over `channels`, have to keep; none in a marked text.

    Raises:
        UnknownAccessError: a partition cannot keep program order in this way, or would not run ahead at all.
    """
    if STAGES in loop.attributes:
        return []
    accesses: dict[tuple[Block, int], tuple[list[Op], list[Op]]] = {}
    for read, write in reads_after_writes(loop):
        block = common_block([read, write])
        for partition in partitions_of_op(read):
            if partition == DEFAULT:
                continue
            if not isinstance(write, (DescriptorWrite, Store)) or partitions_of_op(write) != (DEFAULT,):
                raise UnknownAccessError
            reads, writes = accesses.setdefault((block, partition), ([], []))
            reads.append(read)
            writes.append(write)
    return [_order(loop, block, key, *found, channels) for (block, key), found in accesses.items()]


def _order(
    loop: For, block: Block, partition: int, reads: list[Op], writes: list[Op], channels: Sequence[Channel]
) -> Order:
    """The order of these accesses in `block`."""
    first_reads, writing = _within(block, reads), _within(block, writes)
    if _at(block, first_reads[-1]) >= _at(block, writing[0]) or _multiplies(block):
        raise UnknownAccessError
    roles = roles_of(loop)
    for read in reads:
        if partitions_of_op(read) == (roles.load,) and not _is_complete(read, block, writing[0], channels):
            raise UnknownAccessError
    assert block.first is not None, "the block has the accesses"
    return Order(
        block,
        Segment(partition, block.first, first_reads[-1]),
        Segment(DEFAULT, writing[0], writing[-1]),
        any(isinstance(write, DescriptorWrite) for write in writes),
        any(isinstance(read, DescriptorRead) for read in reads) and any(isinstance(write, Store) for write in writes),
    )


def _within(block: Block, ops: Sequence[Op]) -> list[Op]:
    """The ops of `block` that are `ops` or around them, in order."""
    found = {ancestor_in(op, block) for op in ops}
    return [op for op in block if op in found]


def _at(block: Block, op: Op) -> int:
    """The place of `op`, or of what is around it, in `block`."""
    inside = ancestor_in(op, block)
    return next(number for number, other in enumerate(block) if other is inside)


def _multiplies(block: Block) -> bool:
    """Whether rounds of `block` have products outside of loops of their own: nothing would run ahead of them."""
    own = _loop_around(block.terminator)
    return any(_loop_around(inner) is own for op in block for inner in op.walk() if isinstance(inner, PRODUCTS))


def _loop_around(op: Op) -> Op | None:
    around = op.parent
    while around is not None and not isinstance(around, For):
        around = around.parent
    return around


def _is_complete(copy: Op, block: Block, write: Op, channels: Sequence[Channel]) -> bool:
    """Whether the default partition knows, at `write` in `block`, that `copy` of this round is complete."""
    for channel in channels:
        roles, user = channel.roles, channel.segments[1]
        if not channel.is_loaded or all(load_of(alloc, roles) is not copy for alloc in channel.buffers):
            continue
        if ancestor_in(user.first, block) is None:
            return False
        if user.partition == DEFAULT:
            return _at(block, user.first) < _at(block, write)
        return user.partition == roles.mma and _is_told(user.first, block, write, channels)
    return False


def _is_told(product: Op, block: Block, write: Op, channels: Sequence[Channel]) -> bool:
    """Whether the default partition waits, before `write`, for products of this round of `block` up to `product`."""
    at, limit = _at(block, product), _at(block, write)
    for channel in channels:
        for one, two in pairwise(channel.segments if channel.block is block else ()):
            hands_over = (one.partition, two.partition) == (channel.roles.mma, DEFAULT)
            if hands_over and at <= _at(block, one.last) and _at(block, two.first) <= limit:
                return True
    return False
