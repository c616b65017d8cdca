"""Channels: buffers that the partitions of a loop hand to each other.

    scf.for … {                                                accesses, by partition       segments
      %m = ttng.tmem_alloc                                     load, product, default       (2) (1)      of %a
      %a = ttg.local_alloc %x     {ttg.partition = 2}                                       (1) (0)      of %m
      ttng.tc_gen5_mma %a, %b, %m {ttg.partition = 1}
      ttng.tmem_load %m           {ttg.partition = 0}
    }

The accesses to a buffer within the innermost block that has them all are divided into segments, each of one partition.
After each segment the buffer passes to the partition of the next one; after the last it passes to the first, for the
next execution of the block. A buffer that is overwritten each time can have several slots, so that the first partition
need not wait. Tiles for the partition that updates accumulators are in such buffers, too.

An accumulator that two partitions modify alternately in an inner loop is two channels. Within the loop they hand it to
each other; outside of it the loop is a segment of the partition that accesses the accumulator first in an iteration,
and it gets it back after the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.scf import For
from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, LocalStore, MemDescView
from tilewright.dialects.ttng_mma import TensorCoreMma, WarpGroupDot
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import MemDescType
from tilewright.transforms.gpu.pipelining.lower_loops import must_be_in_registers
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tile_ops import capability_of, module_of
from tilewright.transforms.gpu.warp_specialization.slices import CORRECTION, DEFAULT, Roles, partitions_of_op, roles_of
from tilewright.transforms.matching import is_in

PRODUCTS = (TensorCoreMma, WarpGroupDot)
"""Products whose operands lie in shared memory."""
ACCESSES = (*PRODUCTS, TmemLoad, TmemStore, LocalLoad, LocalStore)
"""Ops on a buffer that partitions may share."""
TENSOR_MEMORY = 100
"""The first compute capability of devices with tensor memory."""


class UnknownAccessError(Exception):
    """A buffer of a product has uses that cannot be analysed."""


@dataclass(frozen=True)
class Segment:
    """The ops `first` to `last` of a block: all accesses in a row to a buffer by one partition."""

    partition: int
    first: Op
    last: Op


@dataclass
class Channel:
    """Buffers that partitions hand to each other together.

    Attributes:
        block: the innermost block with all accesses.
        buffers: the ops that allocate them.
        segments: the segments of the accesses to them, in order.
        is_new: whether the buffers are new each time that the block is executed.
        roles: the numbers of the partitions.
        inner_loop: the loop, if there is one, behind which the first partition gets the buffers back.
    """

    block: Block
    segments: list[Segment]
    is_new: bool
    roles: Roles
    buffers: list[LocalAlloc | TmemAlloc] = field(default_factory=list)
    inner_loop: For | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether copies fill the buffers."""
        return self.segments[0].partition == self.roles.load

    @property
    def is_loaded_by_threads(self) -> bool:
        """Whether threads copy what fills the buffers, by pointers."""
        return self.is_loaded and isinstance(load_of(self.buffers[0], self.roles), Load)


def source_of(alloc: Op) -> Load | DescriptorRead | None:
    """The load whose tile `alloc` holds as it was loaded; it stands in the same block."""
    if not isinstance(alloc, LocalAlloc) or alloc.source is None:
        return None
    load = alloc.source.op
    if not isinstance(load, LOADS) or load.block is not alloc.block or must_be_in_registers(load):
        return None
    return load


def load_of(alloc: Op, roles: Roles) -> Load | DescriptorRead | None:
    """The load that is a copy to what `alloc` allocates: each by descriptor, and those by pointers that have a mark."""
    load = source_of(alloc)
    if load is None or isinstance(load, DescriptorRead):
        return load
    return load if roles.load in partitions_of_op(load) else None


def product_buffers(loop: For) -> list[LocalAlloc | TmemAlloc]:
    """The ops that allocate what the products of `loop` read and write, in order.

    Raises:
        UnknownAccessError: a buffer comes from elsewhere.
    """
    found: dict[LocalAlloc | TmemAlloc, None] = {}
    for op in loop.walk():
        if isinstance(op, PRODUCTS):
            for value in op.operands:
                if isinstance(value.type, MemDescType) and not _is_only_read(value):
                    found[_origin(value)] = None
    return list(found)


def shared_buffers(loop: For) -> list[LocalAlloc | TmemAlloc]:
    """The ops that allocate what partitions of `loop` share: buffers of products, and tiles that threads read.

    Raises:
        UnknownAccessError: a buffer of a product comes from elsewhere.
    """
    return list(dict.fromkeys([*product_buffers(loop), *_buffers_for_threads(loop)]))


def _buffers_for_threads(loop: For) -> list[LocalAlloc]:
    """The ops that allocate what copies by descriptor fill and threads read, if the device has tensor memory."""
    if capability_of(module_of(loop)) < TENSOR_MEMORY:
        return []
    loaded = [op for op in loop.ops_of(LocalAlloc) if isinstance(source_of(op), DescriptorRead)]
    return [op for op in loaded if op.result.uses and all(isinstance(user, LocalLoad) for user in op.result.uses)]


def _is_only_read(value: Value) -> bool:
    """Whether `value` is an argument of the kernel, or a view of one, that nothing in the kernel writes."""
    while isinstance(op := value.op, MemDescView):
        value = op.source
    around = value.owner.region.op if isinstance(value.owner, Block) and value.owner.region is not None else None
    users = users_through_views(value) if isinstance(around, Func) else ()
    reads = [isinstance(user, LocalLoad) or (isinstance(user, PRODUCTS) and not _writes(user, value)) for user in users]
    return bool(reads) and all(reads)


def _writes(product: Op, buffer: Value) -> bool:
    return isinstance(product, TensorCoreMma) and product.accumulator is buffer


def handed_buffers(loop: For, roles: Roles) -> list[LocalAlloc]:
    """The ops that allocate what the partition of corrections reads of what the default one writes."""
    if roles.correction is None:
        return []
    reads = (op for op in loop.walk() if isinstance(op, LocalLoad) and roles.correction in partitions_of_op(op))
    return [op for op in dict.fromkeys(read.buffer.op for read in reads) if isinstance(op, LocalAlloc)]


def has_group_products(loop: For) -> bool:
    """Whether warp groups multiply in `loop` what lies in shared memory."""
    return any(isinstance(op, WarpGroupDot) for op in loop.walk())


def _origin(value: Value) -> LocalAlloc | TmemAlloc:
    while isinstance(op := value.op, MemDescView):
        value = op.source
    if not isinstance(op, (LocalAlloc, TmemAlloc)):
        raise UnknownAccessError
    return op


def accesses_to(alloc: LocalAlloc | TmemAlloc, loop: For, roles: Roles) -> dict[Op, int]:
    """The ops in `loop` that access the buffer, each with its partition; `alloc` itself writes what it is given.

    Raises:
        UnknownAccessError: it is not known what an op does with the buffer.
    """
    found: dict[Op, int] = {}
    if alloc.source is not None and is_in(alloc, loop):
        load = load_of(alloc, roles)
        found[load or alloc] = DEFAULT if load is None else roles.load
    for user in users_through_views(alloc.results[0]):
        if is_in(user, loop):
            if not isinstance(user, ACCESSES):
                raise UnknownAccessError
            found[user] = roles.mma if isinstance(user, TensorCoreMma) else _reader(user, roles)
    return found


def _reader(access: Op, roles: Roles) -> int:
    """The partition of an access that is no product and no copy."""
    return CORRECTION if roles.correction in partitions_of_op(access) else DEFAULT


def channels_of(loop: For) -> list[Channel]:
    """The channels between the partitions of `loop`.

    Raises:
        UnknownAccessError: a buffer cannot be followed, or the partitions that access it do not take turns.
    """
    channels: list[Channel] = []
    roles = roles_of(loop)
    for alloc in (*shared_buffers(loop), *handed_buffers(loop, roles)):
        accesses = accesses_to(alloc, loop, roles)
        if len(set(accesses.values())) == 1:
            continue
        block = common_block(list(accesses))
        inner = _channel_inside(accesses, block, roles)
        if inner is not None:
            accesses = _around(accesses, inner)
            channels.append(inner)
            if len(set(accesses.values())) == 1:
                inner.buffers.append(alloc)
                continue
        channel = Channel(block, _segments(accesses, block, roles), alloc.block is block, roles)
        channel.buffers.append(alloc)
        for other in channels:
            if _are_loaded_together(other, channel):
                first = min(other.segments[0], channel.segments[0], key=lambda segment: _place(segment.first, block))
                other.segments[0] = first
                other.buffers.append(alloc)
                break
        else:
            channels.append(channel)
    return channels


def _channel_inside(accesses: Mapping[Op, int], block: Block, roles: Roles) -> Channel | None:
    """The channel within a loop of `block`, where in each iteration a product follows accesses by another partition."""
    loops = {op for access in accesses if isinstance(op := ancestor_in(access, block), For)}
    for loop in loops:
        own = {access: number for access, number in accesses.items() if is_in(access, loop)}
        if len(set(own.values())) > 1:
            segments = _segments(own, loop.body, roles)
            if len(segments) != len(set(own.values())) or segments[-1].partition != roles.mma:
                raise UnknownAccessError
            return Channel(loop.body, segments, is_new=False, roles=roles, inner_loop=loop)
    return None


def _around(accesses: Mapping[Op, int], inner: Channel) -> dict[Op, int]:
    """`accesses` with one of the first partition of `inner` in place of those in its loop."""
    assert inner.inner_loop is not None, "the channel is one within a loop"
    others = {access: number for access, number in accesses.items() if not is_in(access, inner.inner_loop)}
    return {**others, inner.inner_loop: inner.segments[0].partition}


def _are_loaded_together(one: Channel, other: Channel) -> bool:
    """Whether one barrier can signal that the copies of both have arrived, and one that both are free."""
    if not (one.is_loaded and other.is_loaded) or one.segments[1:] != other.segments[1:]:
        return False
    return one.is_loaded_by_threads == other.is_loaded_by_threads


def _place(op: Op, block: Block) -> int:
    return next(number for number, other in enumerate(block) if other is op)


def common_block(ops: list[Op]) -> Block:
    """The innermost block that has all `ops`, or ops around them."""
    block = ops[0].block
    while block is not None and any(ancestor_in(op, block) is None for op in ops):
        parent = block.region.op if block.region is not None else None
        block = parent.block if parent is not None else None
    assert block is not None, "all accesses are in one loop"
    return block


def _segments(accesses: dict[Op, int], block: Block, roles: Roles) -> list[Segment]:
    partitions: dict[Op, int] = {}
    for access, partition in accesses.items():
        op = ancestor_in(access, block)
        assert op is not None, "the block has all accesses"
        if partitions.setdefault(op, partition) != partition:
            raise UnknownAccessError
    segments: list[Segment] = []
    for op in block:
        if op not in partitions:
            continue
        last = segments[-1] if segments else None
        if last is not None and last.partition == partitions[op]:
            segments[-1] = Segment(last.partition, last.first, op)
        else:
            segments.append(Segment(partitions[op], op, op))
    if len(segments) > 1 and segments[0].partition == segments[-1].partition and roles.load in partitions.values():
        raise UnknownAccessError
    return segments
