"""Channels become rings of buffers in shared memory, with barriers by which partitions hand them over.

    scf.for … {                                 %ring = ttg.local_alloc : () -> !ttg.memdesc<3x128x64xf16, …>
      %x = tt.descriptor_load %d   {2}          %full, %empty = 3 barriers each
      %a = ttg.local_alloc %x      {2}          scf.for … iter_args(%i = 0, %p = 0) {
      ttng.tc_gen5_mma %a, …       {1}            %a = ttg.memdesc_index %ring[%i]
    }                                             ttng.wait_barrier %empty[%i], %p ^ 1               {2}
                                         ->       ttng.barrier_expect %full[%i], 16384               {2}
                                                  ttng.async_tma_copy_global_to_local %d, %a, %full  {2}
                                                  ttng.wait_barrier %full[%i], %p                    {1}
                                                  ttng.tc_gen5_mma %a, …                             {1}
                                                  ttng.tc_gen5_commit %empty[%i]                     {1}
                                                  yield the slot after %i, and %p ^ 1 after the last
                                                }

There is a barrier between each segment and the next one: its partition waits for the previous one. The first segment
waits for the last one of the previous round; in the first round this wait succeeds at once, because a new barrier
counts as having completed phase 1. Tokens of tensor memory have been removed by then; the barriers order accesses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.analysis.axis_info import AxisInfo, analyze_axis_info
from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.dialects.scf import For
from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad
from tilewright.dialects.ttng_barriers import BY_WARPS
from tilewright.dialects.ttng_mma import TensorCoreMma, WarpGroupDot
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.attributes import UNIT, Attribute, Number
from tilewright.ir.core import Block, Op, Value, buffer_type
from tilewright.ir.types import MemDescType, i1, i32
from tilewright.transforms.gpu.allocate_memory import columns_of, free_columns
from tilewright.transforms.gpu.pipelining.assign_latencies import DEFAULT_STAGES, StageOptions, stages_of
from tilewright.transforms.gpu.pipelining.lower_loops import async_load_of, copied_bytes, start_copying
from tilewright.transforms.gpu.pipelining.lower_products import allocate_barriers
from tilewright.transforms.gpu.pipelining.schedule import Writer
from tilewright.transforms.gpu.tile_ops import plain_buffer, workers_of
from tilewright.transforms.gpu.tma_lowering import read_from, retype_views, start_reading
from tilewright.transforms.gpu.warp_specialization.carried_counters import Counters
from tilewright.transforms.gpu.warp_specialization.channels import (
    Channel,
    Segment,
    channels_of,
    has_group_products,
    load_of,
    product_buffers,
)
from tilewright.transforms.gpu.warp_specialization.correction import compute_early, corrects, handed_tiles
from tilewright.transforms.gpu.warp_specialization.memory_order import Order, orders_of
from tilewright.transforms.gpu.warp_specialization.slices import (
    DEFAULT,
    OUTPUTS,
    mark,
    marked_loops,
    partitions_of_op,
    roles_of,
    without,
)
from tilewright.transforms.loop_unroll import NUM_STAGES
from tilewright.transforms.matching import constant_of, following, is_after
from tilewright.transforms.op_builder import OpBuilder

FENCE: dict[str, Attribute] = {
    "asm_string": "fence.proxy.async.global; mov.b32 $0, 0;",
    "constraints": "=r",
    "packed_element": Number(1, i32),
    "pure": False,
}
"""Copies by descriptor see what the thread has stored to global memory."""
Place = tuple[Value, Value]
"""The number of a place in a ring, and the parity of the round."""


def insert_channels(module: Op, options: StageOptions = DEFAULT_STAGES) -> bool:
    """Insert channels for the buffers that partitions of the loops of `module` share."""
    loops = marked_loops(module)
    facts = analyze_axis_info(module) if loops else {}
    for loop in loops:
        _Inserter(loop, max(1, stages_of(loop, options.num_stages)), facts).insert()
    return bool(loops)


class _Marker(Writer):
    """Puts ops before one that is there, for one partition."""

    def __init__(self, before: Op, partition: int) -> None:
        super().__init__(before)
        self.partition = partition

    @classmethod
    def behind(cls, segment: Segment) -> _Marker:
        """Puts ops behind `segment`, for its partition."""
        marker = cls(segment.last, segment.partition)
        marker.before = segment.last.next
        return marker

    def marked(self, name: str, operands: Sequence[Value | Sequence[Value]], **attributes: Attribute) -> None:
        """An op without results that the partition executes."""
        mark(self.op(name, operands, (), attributes), [self.partition])


class _Inserter:
    """Rewrites `loop`; copies may be `stages` iterations ahead of products. `facts` is the axis info."""

    def __init__(self, loop: For, stages: int, facts: Mapping[Value, AxisInfo]) -> None:
        self.loop, self.stages, self.facts = loop, stages, facts
        self.roles = roles_of(loop)
        self.places: dict[tuple[Block, int], Place] = {}
        self.arriving_warps = workers_of(loop).warps if has_group_products(loop) else 0

    def insert(self) -> None:
        for op in self.loop.walk():
            op.attributes = without(op, OUTPUTS)  # there will be more results: numbers of places
        for alloc in product_buffers(self.loop):
            if isinstance(alloc, TmemAlloc) and _is_within(alloc, self.loop):
                _write_no_start(alloc)
        for tile in handed_tiles(self.loop):
            self._put_into_memory(tile)
        channels = channels_of(self.loop)
        for order in orders_of(self.loop, channels):
            self._keep(order)
        for channel in sorted(channels, key=lambda channel: channel.inner_loop is not None):
            self._hand_over(channel, self._places_of(channel))
        for op in list(self.loop.walk()):
            if isinstance(op, TensorCoreMma):
                op.attributes = {**op.attributes, "is_async": UNIT}
            elif isinstance(op, WarpGroupDot):
                _keep_whole(op)

    def _places_of(self, channel: Channel) -> int:
        """The number of slots of a channel's buffers: one, if contents must stay or no partition would run ahead."""
        if not channel.is_new or channel.segments[0].partition == channel.segments[-1].partition:
            return 1
        if channel.is_loaded:
            return self.stages if not channel.segments[-1].last.regions else 1
        first = channel.segments[0]
        whole_loops = first.partition == self.roles.mma and any(isinstance(op, For) for op in (first.first, first.last))
        columns = sum(columns_of(op) for op in channel.buffers if isinstance(op, TmemAlloc))
        return 2 if whole_loops and free_columns(self.loop) >= columns else 1

    def _hand_over(self, channel: Channel, count: int) -> None:
        segments = channel.segments
        place, phase = self._place(channel.block, count)
        by_threads = channel.is_loaded_by_threads
        arrivals = [self._arrivals(segment.partition) for segment in segments]
        if by_threads:
            arrivals[0] = _threads(self.loop)
        barriers = [allocate_barriers(self.loop, count, number) for number in arrivals]
        is_cyclic, is_read = segments[0].partition == segments[-1].partition, _is_read_by_threads(channel)
        for number, segment in enumerate(segments):
            first = number == 0
            if not (first and is_cyclic):
                self._wait(segment, barriers[number - 1], place, phase, other_round=first)
            if by_threads and segment.partition == self.roles.mma:
                _Marker(segment.first, self.roles.mma).marked("ttng.fence_async_shared", (), bCluster=False)
            if segment.partition != self.roles.load and not (segment is segments[-1] and is_cyclic):
                self._tell(segment, barriers[number], place, fenced=is_read and segment is segments[-1])
        if channel.inner_loop is not None:
            self._wait_after(channel.inner_loop, segments[0].partition, barriers[-1], place, phase)
        if by_threads:
            self._copy_by_threads(channel, count, barriers[0], place)
        elif channel.is_loaded:
            self._copy(channel, count, barriers[0], place)
        else:
            for alloc in channel.buffers:
                if alloc.block is not self.loop.block and _is_within(alloc, self.loop):
                    self._move_out(alloc, count if channel.is_new else 1, place)

    def _keep(self, order: Order) -> None:
        """Let the reads and writes of `order` take turns; what is written is in memory before the next reads."""
        place, phase = self._place(order.block, 1)
        reads, writes = order.reads, order.writes
        read, written = (allocate_barriers(self.loop, 1, self._arrivals(part.partition)) for part in (reads, writes))
        self._wait(reads, written, place, phase, other_round=True)
        self._arrive(_Marker.behind(reads), read, place)
        self._wait(writes, read, place, phase, other_round=False)
        at = _Marker.behind(writes)
        if order.copies_out:
            at.marked("ttng.async_tma_store_wait", (), pendings=Number(0, i32))
        if order.fenced:
            mark(at.op("tt.elementwise_inline_asm", (), (i32,), FENCE), [DEFAULT])
        self._arrive(at, written, place)

    # Barriers

    def _arrivals(self, partition: int) -> int:
        """How often `partition` arrives behind a segment: groups that multiply do not wait for each other."""
        return max(1, self.arriving_warps) if partition == DEFAULT else 1

    def _wait(self, segment: Segment, barriers: Value, place: Value, phase: Value, *, other_round: bool) -> None:
        at = _Marker(segment.first, segment.partition)
        if other_round:
            phase = at.compute("arith.xori", phase, at.constant(1, i32))
        at.marked("ttng.wait_barrier", [at.view(barriers, place), phase, [], []])

    def _wait_after(self, loop: For, partition: int, barriers: Value, place: Value, phase: Value) -> None:
        """Let `partition` wait behind `loop` until the last segment of the last iteration, with `phase`, has ended."""
        assert loop.next is not None, "a terminator ends the block"
        at = _Marker(loop.next, partition)
        after = loop.results[phase.index - 1]
        before = at.compute("arith.xori", after, at.constant(1, i32))
        at.marked("ttng.wait_barrier", [at.view(barriers, place), before, [], []])

    def _tell(self, segment: Segment, barriers: Value, place: Value, *, fenced: bool) -> None:
        """Arrive behind `segment`; `fenced`: the accelerator writes next what its threads have read."""
        at = _Marker.behind(segment)
        if fenced:
            at.marked("ttng.fence_async_shared", (), bCluster=False)
        if segment.partition == self.roles.mma:
            at.marked("ttng.tc_gen5_commit", [at.view(barriers, place), [], []])
        else:
            self._arrive(at, barriers, place)

    def _arrive(self, at: _Marker, barriers: Value, place: Value) -> None:
        """Let the partition of `at` arrive, each of its warps for itself if groups multiply."""
        count = self._arrivals(at.partition)
        each: dict[str, Attribute] = {BY_WARPS: UNIT} if count > 1 else {}
        barrier = at.view(barriers, place)
        at.marked("ttng.arrive_barrier", [barrier, []], count=Number(count, i32), **each)

    # Buffers

    def _copy(self, channel: Channel, count: int, barriers: Value, place: Value) -> None:
        """Copies to the ring in place of loads; one barrier counts the bytes of all."""
        found = {alloc: load_of(alloc, self.roles) for alloc in channel.buffers}
        loads = {alloc: load for alloc, load in found.items() if isinstance(load, DescriptorRead)}
        at = _Marker(channel.segments[0].first, self.roles.load)
        barrier, always = at.view(barriers, place), at.constant(1, i1)
        size = sum(copied_bytes(load) for load in loads.values())
        at.marked("ttng.barrier_expect", (barrier, always), size=Number(size, i32))
        for alloc, load in loads.items():
            at = _Marker(load, self.roles.load)
            buffer = self._ring(alloc, count, place, at)
            start_reading(at, load, barrier, buffer, always)
            copy = load.previous
            assert copy is not None, "the copy stands in front of the load"
            mark(copy, [self.roles.load])
            read_from(load, buffer)

    def _copy_by_threads(self, channel: Channel, count: int, barriers: Value, place: Value) -> None:
        """Each thread signals the barrier when its own copies are done, behind the last of them."""
        found = {alloc: load_of(alloc, self.roles) for alloc in channel.buffers}
        loads = {alloc: load for alloc, load in found.items() if isinstance(load, Load)}
        for alloc, load in loads.items():
            how = async_load_of(load, count, self.facts)
            assert how is not None, "the partition was made for copies"
            at = _Marker(load, self.roles.load)
            buffer = self._ring(alloc, count, place, at)
            copy = start_copying(at, load, how.contiguity, buffer)
            mark(copy, [self.roles.load])
            read_from(load, buffer)
        at.before = copy.next
        at.marked("ttng.async_copy_mbarrier_arrive", [at.view(barriers, place)], noIncrement=UNIT)

    def _ring(self, alloc: LocalAlloc | TmemAlloc, count: int, place: Value, at: Writer) -> Value:
        """The place of what `alloc` makes in a ring before the loop."""
        type = buffer_type(alloc.results[0])
        shape = (count, *type.shape) if count > 1 else type.shape
        front = Writer(self.loop)
        ring = front.emit(alloc.name, (), MemDescType(shape, type.element, type.encoding, type.space, mutable=True))
        if isinstance(alloc, LocalAlloc):
            Writer.after(self.loop).op("ttg.local_dealloc", (ring,))
        return at.view(ring, place) if count > 1 else ring

    def _move_out(self, alloc: LocalAlloc | TmemAlloc, count: int, place: Value) -> None:
        """A buffer that is made before the loop; what it starts with is written where it was made."""
        at = _Marker(alloc, DEFAULT)
        buffer = self._ring(alloc, count, place, at)
        if alloc.source is not None and isinstance(alloc, TmemAlloc):
            at.marked("ttng.tmem_store", [buffer, [], alloc.source, at.constant(1, i1)])
        elif alloc.source is not None:
            at.marked("ttg.local_store", (alloc.source, buffer))
            if not all(isinstance(user, LocalLoad) for user in users_through_views(alloc.result)):
                at.marked("ttng.fence_async_shared", (), bCluster=False)
        alloc.replace([buffer])
        retype_views(buffer)

    def _put_into_memory(self, tile: Value) -> None:
        """Let the partition of corrections read `tile`, which the default one computes, from shared memory."""
        users = [user for user in tile.uses if corrects(user, self.roles)]
        assert tile.op is not None, "an op of the step gives the tile"
        compute_early(tile.op)
        first = next(op for op in following(tile.op) if op in users)
        alloc = Writer.after(tile.op).op("ttg.local_alloc", (tile,), (plain_buffer(tile),))
        load = Writer(first).op("ttg.local_load", (alloc.result,), (tile.type,))
        mark(alloc, [DEFAULT])
        mark(load, partitions_of_op(first))
        read = load.result
        for user in users:
            user.set_operands([read if value is tile else value for value in user.operands])

    # Places

    def _place(self, block: Block, count: int) -> Place:
        """The place in rings of `count` that `block` uses now, counted by all who execute it."""
        key = (block, count)
        if key not in self.places:
            self.places[key] = self._counted(block, count)
        return self.places[key]

    def _counted(self, block: Block, count: int) -> Place:
        zero = Writer(self.loop).constant(0, i32)
        assert self.loop.block is not None, "the loop is in a block"
        counters = Counters(block, self.loop.block, (zero, zero))
        place, phase = counters.values
        at = Writer(block.terminator)
        one = at.constant(1, i32)
        other = at.compute("arith.xori", phase, one)
        if count == 1:
            counters.hand_on([place, other])
            return zero, phase
        after, wraps = at.next_of(place, at.constant(count, i32), at.constant(0, i32), one)
        counters.hand_on([after, at.compute("arith.select", wraps, other, phase)])
        return place, phase


def _threads(loop: For) -> int:
    """The number of threads that tiles in `loop` are dealt to."""
    workers = workers_of(loop)
    return workers.warps * workers.lanes


def _is_within(op: Op, loop: For) -> bool:
    parent = op.parent
    return parent is loop or (parent is not None and _is_within(parent, loop))


def _is_read_by_threads(channel: Channel) -> bool:
    """Whether copies by descriptor fill the buffers of `channel`, and threads are the last to read them."""
    last = channel.segments[-1]
    return channel.is_loaded and not channel.is_loaded_by_threads and isinstance(last.last, LocalLoad)


def _keep_whole(product: WarpGroupDot) -> None:
    """Prevent pipelining of the innermost loop around `product`: `run_products_on` places its wait."""
    parent = product.parent
    while parent is not None and not isinstance(parent, For):
        parent = parent.parent
    assert parent is not None, "the product is in a loop"
    parent.attributes = {**parent.attributes, NUM_STAGES: Number(0, i32)}


def _write_no_start(alloc: TmemAlloc) -> None:
    """Do not write what a sum starts with where the first product of a loop takes its place; `alloc` is that sum.

    Where the loop has no iteration, those who read the sum take the start instead.
    """
    users = list(alloc.results[0].uses)
    products = [user for user in users if isinstance(user, TensorCoreMma)]
    loads = [user for user in users if isinstance(user, TmemLoad)]
    loop = products[0].parent if len(products) == 1 else None
    if not isinstance(loop, For) or loop.block is not alloc.block or not _begins_anew(products[0], loop):
        return
    store = _first_store(alloc, loop)
    start = alloc.source if store is None else store.value
    if start is None or len(loads) != len(users) - 1 - (store is not None):
        return
    if not all(is_after(load, loop) and load.results[0].type is start.type for load in loads):
        return
    has_steps = OpBuilder(loop).compare("slt", loop.low, loop.high)
    for load in loads:
        choice = OpBuilder.after(load).op("arith.select", (has_steps, load.results[0], start), (start.type,))
        load.results[0].replace_by(choice.result)
        choice.set_operand(1, load.results[0])
    alloc.set_operands(())
    if store is not None:
        store.erase()


def _first_store(alloc: TmemAlloc, loop: For) -> TmemStore | None:
    """The op that writes, before `loop`, what the sum that `alloc` makes starts with."""
    stores = [user for user in alloc.results[0].uses if isinstance(user, TmemStore)]
    always = len(stores) == 1 and alloc.source is None and constant_of(stores[0].predicate) == 1
    return stores[0] if always and is_after(loop, stores[0]) else None


def _begins_anew(product: TensorCoreMma, loop: For) -> bool:
    """Whether `product`, in each iteration of `loop`, does not add in the first one."""
    adds = product.uses_accumulator
    carried = adds.owner is loop.body and adds.index > 0 and constant_of(loop.inits[adds.index - 1]) == 0
    return carried and constant_of(product.predicate) == 1 and "unsignedCmp" not in loop.attributes
