"""Loads of scheduled loops become asynchronous copies into a ring of buffers.

    %x = tt.load %p {stage 0}                %ring = ttg.local_alloc : () -> !ttg.memdesc<2x64x64xf16, …>
    use(%x)         {stage 2}                scf.for … iter_args(%in = -1, %out = -1) {
                                               %i = (%in + 1) mod 2   {stage 0}
                                               %o = (%out + 1) mod 2  {stage 2}
                                               %c = ttg.async_copy_global_to_local %p, %ring[%i]  {stage 0}
                                               %g = ttg.async_commit_group tokens %c              {stage 0}
                                               %w = ttg.async_wait %g                             {stage 2}
                                               %x = ttg.local_load %ring[%o] token %w             {stage 2}

Copies by descriptor announce their bytes to a barrier, one for adjacent loads, and users wait for it. Its phase
distinguishes the rounds of the ring. Reader and writer have a counter each, so that neither number has to be carried
for as many iterations as lie between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.analysis.axis_info import AxisInfo, analyze_axis_info
from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.analysis.live_ranges import ancestor_in
from tilewright.analysis.shared_memory import buffer_bytes
from tilewright.dialects.scf import For
from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_memory import LocalAlloc, MemDescView
from tilewright.dialects.ttng_barriers import WaitBarrier
from tilewright.dialects.ttng_mma import WarpGroupDot
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Op, Value, buffer_type, tile_type
from tilewright.ir.types import MemDescType, TensorType, async_token, i1, i32
from tilewright.layouts.blocked import default_blocked
from tilewright.layouts.encodings import Encoding, SwizzledShared, encoding
from tilewright.layouts.queries import cga_layout, order, shape_per_cta
from tilewright.transforms.gpu.pipelining.assign_latencies import (
    SMALLEST_COPY,
    IncompatibleUsersError,
    bits_into,
    elements_at_once,
    shared_layout_for,
)
from tilewright.transforms.gpu.pipelining.descriptors import lower_descriptors
from tilewright.transforms.gpu.pipelining.lower_products import Rings, allocate_barriers, lower_products
from tilewright.transforms.gpu.pipelining.schedule import (
    LAST_STAGE,
    Schedule,
    Slot,
    Writer,
    body_of,
    carry,
    forget_schedule,
    hand_on,
    loops_of,
)
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tile_ops import distributed_of, workers_of
from tilewright.transforms.gpu.tma_lowering import buffer_layout, copies_of, line_of_ctas, read_from, start_reading
from tilewright.transforms.matching import following, has_one_use, is_zero


@dataclass
class AsyncLoad:
    """A load that runs ahead.

    Attributes:
        load: the op.
        buffers: how many tiles are on their way or in use at once.
        layout: of each buffer.
        contiguity: how many neighbours one instruction may copy.
    """

    load: Load | DescriptorRead
    buffers: int
    layout: Encoding
    contiguity: int = 1

    @property
    def bytes(self) -> int:
        """The size of one buffer."""
        type = self.load.result.type
        if not isinstance(type, TensorType):
            return type.bits // 8
        return buffer_bytes(MemDescType(type.shape, type.element, self.layout.text), self.layout)


def start_after_waits(loop: For, schedule: Schedule) -> None:
    """Let copies start behind the waits of their iteration for a free slot.

    A wait that names the buffer waits for the last who reads it. A copy before it would need a place more.
    """
    for op in body_of(loop):
        waits = [user for user in _readers(op, loop) if isinstance(user, WaitBarrier)]
        own = schedule.slots.get(op)
        if not waits or own is None or any(schedule.slots[user].stage <= own.stage for user in users_in(op, loop)):
            continue
        last = max((schedule.slots[wait].cluster for wait in waits), key=schedule.clusters.index)
        if schedule.is_before(own.cluster, last):
            schedule.insert(op, Slot(own.stage, schedule.cluster_after(last)))


def async_loads(loop: For, schedule: Schedule, facts: Mapping[Value, AxisInfo]) -> list[AsyncLoad]:
    """The loads of `loop` that run ahead of their users and can be copied asynchronously."""
    found = []
    for op in body_of(loop):
        if isinstance(op, LOADS) and (distance := stages_ahead(op, loop, schedule)) > 0:
            load = async_load_of(op, distance, facts)
            if load is not None:
                found.append(load)
    return found


def async_load_of(op: Load | DescriptorRead, buffers: int, facts: Mapping[Value, AxisInfo]) -> AsyncLoad | None:
    """How `op` is copied asynchronously; None if it cannot be."""
    type = op.result.type
    if isinstance(op, DescriptorRead):
        return AsyncLoad(op, buffers, buffer_layout(op.descriptor, tile_type(op.result)))
    if not isinstance(type, TensorType):
        return AsyncLoad(op, buffers, line_of_ctas(op)) if type.bits >= SMALLEST_COPY else None
    layout = _layout(op)
    if cga_layout(layout) != cga_layout(distributed_of(op.result)):
        return None  # a CTA copies to its own memory alone
    count = elements_at_once(op, facts)
    narrow = min(count * type.bits, bits_into(op.result, layout)) < SMALLEST_COPY
    return None if narrow else AsyncLoad(op, buffers, layout, count)


def _layout(load: Load) -> Encoding:
    """The layout that the users of the tile prefer: a buffer's own layout, that of a dot's operand, or any."""
    buffers = [user.result for user in load.result.uses if isinstance(user, LocalAlloc)]
    if buffers:
        return encoding(buffer_type(buffers[-1]).encoding)
    try:
        found = shared_layout_for(load.result)
    except IncompatibleUsersError:
        found = None
    registers = distributed_of(load.result)
    shape = load.result.type.shape or ()
    return found or SwizzledShared(1, 1, 1, order(registers, shape), cga_layout(registers))


# --- users --------------------------------------------------------------------------------------------------------


def stages_ahead(op: Op, loop: For, schedule: Schedule) -> int:
    """The number of iterations between `op` and the first that uses its result; and the last that reads its buffer."""
    users = dict.fromkeys(users_in(op, loop))
    for user in list(users):
        if isinstance(user, LocalAlloc):  # it will not be there any more
            users.update(dict.fromkeys(users_in(user, loop)))
    own = schedule.slots[op]

    def distance(user: Op) -> int:
        slot = schedule.slots[user]
        # A user that comes later in the iteration reads after the next copy began.
        return slot.stage - own.stage + schedule.is_before(own.cluster, slot.cluster)

    waits = [schedule.slots[user].stage - own.stage for user in users if isinstance(user, WaitBarrier)]
    return max(min(map(distance, users), default=0), *map(distance, _readers(op, loop)), *waits, 0)


def _readers(op: Op, loop: For) -> Iterator[Op]:
    """The ops of the body of `loop` that read the buffers as the load `op` copied them, or wait for those who do."""
    for alloc in _kept_buffers(op) if isinstance(op, LOADS) else ():
        yield from users_in(alloc, loop)


def users_in(op: Op, loop: For) -> Iterator[Op]:
    """The ops of the body of `loop` that use results of `op`, also in the next iteration; of views their users."""
    body = loop.body
    waiting, seen = list(op.results), set(op.results)
    while waiting:
        value = waiting.pop()
        for user in value.uses:
            further: list[Value] = []
            if user is body.last:
                further = [loop.carried[i] for i, handed in enumerate(user.operands) if handed is value]
            elif isinstance(user, MemDescView):
                further = list(user.results)
            else:
                ancestor = ancestor_in(user, body)
                if ancestor is not None:
                    yield ancestor
            waiting += [value for value in further if value not in seen]
            seen.update(further)


def must_be_in_registers(load: Load | DescriptorRead) -> bool:
    """Whether the users of `load` want more than a buffer that is as it was copied."""
    return not has_one_use(load.result) or not _kept_buffers(load)


def _kept_buffers(load: Load | DescriptorRead) -> list[LocalAlloc]:
    """The buffers with the tile of `load` that may be as it was copied."""
    if isinstance(load, Load) and load.other is not None and not is_zero(load.other):
        return []
    allocs = [user for user in load.result.uses if isinstance(user, LocalAlloc)]
    if not isinstance(load, DescriptorRead) or not isinstance(load.result.type, TensorType):
        return allocs
    layout = buffer_layout(load.descriptor, load.result.type)
    return [alloc for alloc in allocs if encoding(buffer_type(alloc.result).encoding) is layout]


def _is_read_by_next_step(load: Load | DescriptorRead) -> bool:
    """Whether a product that runs on reads the tile: it may still do so when the next iteration begins."""
    readers = (user for alloc in _kept_buffers(load) for user in users_through_views(alloc.result))
    return any(isinstance(user, WarpGroupDot) for user in readers)


def lower_loops(module: Op) -> bool:
    """Make the loads of the scheduled loops of `module` asynchronous."""
    loops = [loop for loop in loops_of(module, For) if LAST_STAGE in loop.attributes]
    facts = analyze_axis_info(module) if loops else {}
    for loop in loops:
        schedule = Schedule.read(loop)
        assert schedule is not None, "the loop has a schedule"
        if not _lower_products(loop, schedule, facts):
            forget_schedule(loop)
            continue
        lower_loads(loop, schedule, facts)
        lower_descriptors(loop, schedule)
        schedule.write(loop)
    return bool(loops)


def _lower_products(loop: For, schedule: Schedule, facts: Mapping[Value, AxisInfo]) -> bool:
    """Let products run on, as far as there is room beside the loads; whether the loop can be pipelined."""
    found = [op for op in body_of(loop) if isinstance(op, LOADS)]
    loads = [load for op in found if (load := async_load_of(op, stages_ahead(op, loop, schedule), facts)) is not None]
    kept: dict[Op, Op] = {
        alloc: load.load
        for load in loads
        for alloc in copies_of(load.load.result, load.layout.text)
        if alloc in _kept_buffers(load.load)
    }
    places: dict[Op, int] = {load.load: load.bytes for load in loads}
    ahead: set[Op] = {load.load for load in loads if load.buffers}
    size = sum(load.buffers * load.bytes for load in loads)
    return lower_products(loop, schedule, Rings([load.load for load in loads], ahead, kept, places, size))


@dataclass
class Ring:
    """The places in all buffers of one number: where the next tile goes, and where the first is that is there.

    Attributes:
        insert: the place of the tile that is on its way.
        extract: the place of the tile that is used.
        phase: the parity of the round of `extract`; only for barriers.
    """

    insert: Value
    extract: Value
    phase: Value | None


def lower_loads(loop: For, schedule: Schedule, facts: Mapping[Value, AxisInfo]) -> None:
    """Lower the loads of one loop."""
    start_after_waits(loop, schedule)
    loads = async_loads(loop, schedule, facts)
    if not loads:
        return
    for load in loads:
        load.buffers += _is_read_by_next_step(load.load)
        if isinstance(load.load, Load) and not isinstance(load.load.result.type, TensorType):
            _make_tile(load.load, loop, schedule)
    memory = {load.load: _allocate(load, loop) for load in loads}
    rings = _rings(loop, loads)
    barriers = _create_barriers(loop, loads, rings, schedule)
    for load in loads:
        ring = rings[load.buffers]
        if isinstance(load.load, DescriptorRead):
            _copy_by_descriptor(load.load, memory[load.load], ring, *barriers[load.load], loop, schedule)
        else:
            _copy(load.load, load.contiguity, memory[load.load], ring, loop, schedule)
    schedule.insert_all_needed(loop)
    if any(load not in barriers for load in memory):
        Writer.after(loop).op("ttg.async_wait", (), TOKEN, {"num": Number(0, i32)})


def first_user(ops: Sequence[Op], loop: For, schedule: Schedule) -> Slot:
    """The slot of the first user of `ops` in the unrolled loop."""
    first = schedule.first(user for op in ops for user in users_in(op, loop))
    assert first is not None, "what runs ahead has users"
    return schedule.slots[first]


def _make_tile(load: Load, loop: For, schedule: Schedule) -> None:
    """Load a tile of one element instead of a number."""
    type, slot = load.result.type, schedule.slots[load]
    layout = default_blocked((1,), workers_of(load)).text
    writer = Writer(load, schedule, slot)
    tiles = [writer.emit("tt.splat", (value,), TensorType((1,), value.type, layout)) for value in load.operands]
    user = first_user([load], loop, schedule)
    back = Writer.after(load, schedule, user).op("tt.unsplat", (), (type,))
    load.result.replace_by(back.result)
    load.set_operands(tiles)
    load.result.type = TensorType((1,), type, layout)
    back.set_operands([load.result])


def _allocate(load: AsyncLoad, loop: For) -> Value:
    """A ring of buffers, before the loop."""
    type = tile_type(load.load.result)
    ring = MemDescType((load.buffers, *type.shape), type.element, load.layout.text, mutable=True)
    writer = Writer(loop)
    writer.location = load.load.location
    buffers = writer.emit("ttg.local_alloc", (), ring)
    Writer.after(loop).op("ttg.local_dealloc", (buffers,))
    return buffers


def _rings(loop: For, loads: Sequence[AsyncLoad]) -> dict[int, Ring]:
    """Counters for each number of buffers, carried by the loop."""
    sizes = dict.fromkeys(load.buffers for load in loads)
    with_barriers = {load.buffers for load in loads if isinstance(load.load, DescriptorRead)}
    front = Writer(loop)
    minus_one, zero, one = (front.constant(value, i32) for value in (-1, 0, 1))
    rings: dict[int, Ring] = {}
    for size in sizes:
        insert, extract = carry(loop, minus_one), carry(loop, minus_one)
        phase = carry(loop, zero) if size in with_barriers else None
        rings[size] = Ring(insert, extract, phase)
    first = loop.body.first
    assert first is not None, "a loop has a terminator"
    counts = {size: Writer(first).constant(size, i32) for size in sizes}
    for size, ring in reversed(rings.items()):
        start, count = Writer(first), counts[size]
        start.location = loop.location
        insert, _ = start.next_of(ring.insert, count, zero, one)
        extract, wraps = start.next_of(ring.extract, count, zero, one)
        hand_on(loop, ring.insert, insert)
        hand_on(loop, ring.extract, extract)
        ring.insert, ring.extract = insert, extract
        if ring.phase is not None:
            other = start.compute("arith.xori", ring.phase, one)
            phase = start.compute("arith.select", wraps, other, ring.phase)
            hand_on(loop, ring.phase, phase)
            ring.phase = phase
    return rings


# --- copies that a thread waits for -------------------------------------------------------------------------------

TOKEN = (async_token,)
OPTIONS = ("cache", "evict", "isVolatile")
"""The attributes of a load that its copy keeps."""


def _copy(op: Load, contiguity: int, buffers: Value, ring: Ring, loop: For, schedule: Schedule) -> None:
    user, reader = first_user([op], loop, schedule), _slot_of_read(op, buffers, loop, schedule)
    at = Writer(op, schedule, schedule.slots.pop(op))
    copy = start_copying(at, op, contiguity, at.view(buffers, ring.insert))
    group = at.op("ttg.async_commit_group", [copy.results], TOKEN)
    at.slot = user
    wait = at.op("ttg.async_wait", [group.results], TOKEN, {"num": Number(0, i32)})
    tile = at.view(buffers, ring.extract)
    if op.mask is not None and op.other is not None and not is_zero(op.other):
        # The copy writes zeros where the mask is false.
        read = at.op("ttg.local_load", (tile, *wait.results), (op.result.type,)).result
        op.replace([at.compute("arith.select", op.mask, read, op.other)])
        return
    _schedule(read_from(op, tile, token=wait.result), reader, schedule)


def start_copying(at: Writer, load: Load, contiguity: int, buffer: Value) -> Op:
    """A copy to `buffer` of what `load` loads."""
    masks, others = ([] if value is None else [value] for value in (load.mask, load.other))
    options = {name: load.attributes[name] for name in OPTIONS if name in load.attributes}
    attributes: dict[str, Attribute] = {"isVolatile": False, "contiguity": Number(contiguity, i32), **options}
    return at.op("ttg.async_copy_global_to_local", [load.pointer, buffer, masks, others], TOKEN, attributes)


def _slot_of_read(load: Load | DescriptorRead, buffers: Value, loop: For, schedule: Schedule) -> Slot:
    """When threads read the tile of `load` from the ring `buffers`: late, so that it is not in registers for long.

    That is the slot of the first who needs it there, if the place is kept until then, and of the first user if not.
    """
    ring, first = buffer_type(buffers), first_user([load], loop, schedule)
    copies = copies_of(load.result, ring.encoding)
    users = [ancestor_in(user, loop.body) for user in load.result.uses if user not in copies]
    if loop.body.last in users or not users:
        return first
    reader = schedule.first(user for user in users if user is not None)
    assert reader is not None, "there are users"
    slot, own = schedule.slots[reader], schedule.slots[load]
    distance = slot.stage - own.stage + schedule.is_before(own.cluster, slot.cluster)
    return slot if distance <= ring.shape[0] else first


def _schedule(op: Op | None, slot: Slot, schedule: Schedule) -> None:
    if op is not None:
        schedule.insert(op, slot)


# --- copies by descriptor -----------------------------------------------------------------------------------------


def _create_barriers(
    loop: For, loads: Sequence[AsyncLoad], rings: Mapping[int, Ring], schedule: Schedule
) -> dict[Op, tuple[Value, Op]]:
    """Per load by descriptor the barrier that counts its bytes, and the op that waits for it."""
    found: dict[Op, tuple[Value, Op]] = {}
    for group in _groups(loads, schedule):
        first, last = group[0].load, group[-1].load
        ring = rings[group[0].buffers]
        assert ring.phase is not None, "rings of barriers have phases"
        barriers = allocate_barriers(loop, group[0].buffers)
        at = Writer(first, schedule, schedule.slots[first])
        barrier = at.view(barriers, ring.insert)
        size = Number(sum(copied_bytes(load.load) for load in group), i32)
        at.op("ttng.barrier_expect", (barrier, at.constant(1, i1)), (), {"size": size})
        user = first_user([load.load for load in group], loop, schedule)
        after = Writer.after(last, schedule, user)
        used = after.view(barriers, ring.extract)
        wait = after.op("ttng.wait_barrier", [used, ring.phase, [], []])
        found.update({load.load: (barrier, wait) for load in group})
    return found


def copied_bytes(load: Load | DescriptorRead) -> int:
    """The number of bytes that a copy of what `load` reads brings to a CTA."""
    type = tile_type(load.result)
    return prod(shape_per_cta(distributed_of(load.result), type.shape)) * type.bits // 8


def _groups(loads: Sequence[AsyncLoad], schedule: Schedule) -> list[list[AsyncLoad]]:
    """Loads by descriptor that one barrier can count: alike, and nothing between them uses one."""
    waiting: dict[Op, AsyncLoad] = {load.load: load for load in loads if isinstance(load.load, DescriptorRead)}
    groups = []
    grouped: set[Op] = set()
    for first in waiting.values():
        if first.load in grouped:
            continue
        group = [first]
        grouped.add(first.load)
        users = _users(first.load)
        for op in following(first.load):
            if op in users or op in grouped:
                break
            load = waiting.get(op)
            if load is not None:
                if load.buffers != first.buffers:
                    break
                if schedule.slots[op] == schedule.slots[first.load]:
                    group.append(load)
                    grouped.add(op)
                    users |= _users(load.load)
        groups.append(group)
    return groups


def _users(load: Load | DescriptorRead) -> set[Op | None]:
    """The ops of the block of `load` that use its tile; a buffer that only takes it does not count, its users do."""
    block, tile = load.block, load.result
    assert block is not None, "a load is in a loop"
    if not must_be_in_registers(load):
        (alloc,) = load.result.uses
        tile = alloc.results[0] if alloc.block is block else tile
    return {ancestor_in(user, block) for user in tile.uses}


def _copy_by_descriptor(
    op: DescriptorRead, buffers: Value, ring: Ring, barrier: Value, wait: Op, loop: For, schedule: Schedule
) -> None:
    user, reader = first_user([op], loop, schedule), _slot_of_read(op, buffers, loop, schedule)
    at = Writer(op, schedule, schedule.slots.pop(op))
    view = at.view(buffers, ring.insert)
    start_reading(at, op, barrier, view, at.constant(1, i1))
    after = Writer.after(wait, schedule, user)
    tile = after.view(buffers, ring.extract)
    _schedule(read_from(op, tile, before=after.before), reader, schedule)
