"""Asynchronous products in tensor memory of scheduled loops: completion barriers, and scheduled waits.

    scf.for … {                                           scf.for … iter_args(%p = 0, %i = 0) {
      ttng.tc_gen5_mma %a, %b, %d, …   {stage 2}            ttng.tc_gen5_mma %a, %b, %d, …, %done[%i]  {stage 2}
                                                 ->         ttng.wait_barrier %done[%i], %p deps %a, %b   {stage 3}
                                                            %p, %i of the next iteration                  {stage 2}

Two barriers alternate. The wait for a product comes after the product of the next iteration, or before the first access
to its accumulator or store to its operands, if that is earlier; a cluster of the schedule is split there. Inside
branches there is an additional wait. The wait has the operands as dependences, so that the slots of their rings stay in
use until then.

    %m = ttng.tmem_alloc : 128x64                         %m = ttng.tmem_alloc : 2x128x64
    … %m                                         ->       … %m[%k], where %k alternates

An accumulator that an iteration reinitialises while users of the previous one are still to come has two slots. A loop
in which neither the schedule nor two slots preserve the order of accesses is not pipelined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from tilewright.analysis.buffer_aliases import is_in_shared_memory, users_through_views
from tilewright.analysis.shared_memory import buffer_bytes
from tilewright.dialects.scf import For
from tilewright.dialects.ttg_memory import LocalAlloc, LocalStore
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad, TmemStore
from tilewright.ir.attributes import UNIT, Number
from tilewright.ir.core import Op, Value, buffer_type, typed
from tilewright.ir.operands import set_operand_groups
from tilewright.ir.types import MemDescType, async_token, i1, i32
from tilewright.layouts.encodings import encoding
from tilewright.transforms.gpu.allocate_memory import columns_of, free_columns
from tilewright.transforms.gpu.pipelining.product_latencies import (
    SELF_LATENCY,
    State,
    accesses_to,
    factors,
    may_run_on,
    root_of,
    start_of,
    state_of,
    sum_of,
)
from tilewright.transforms.gpu.pipelining.schedule import (
    Cluster,
    Schedule,
    Slot,
    Writer,
    body_of,
    carry,
    hand_on,
)
from tilewright.transforms.gpu.tma_lowering import barriers_type, retype_views
from tilewright.transforms.matching import is_after, is_in

SHARED_MEMORY = 232448
"""The shared memory that a program may have on devices with tensor memory, in bytes."""
BARRIERS = 256
"""The shared memory that is left for barriers, in bytes."""


class Rings(NamedTuple):
    """The loads of a loop that can be copied while others run.

    Attributes:
        loads: all of them.
        ahead: those that run ahead without products that run on.
        kept: the ops whose buffers will be the places that a load is copied to, and the load.
        places: the bytes of a place for each load.
        bytes: of all places that there are without products that run on.
    """

    loads: Collection[Op]
    ahead: Collection[Op]
    kept: Mapping[Op, Op]
    places: Mapping[Op, int]
    bytes: int


def lower_products(loop: For, schedule: Schedule, rings: Rings) -> bool:
    """Let the marked products of `loop` run on.

    Returns:
        whether the loop can be pipelined.
    """
    products = _taken_marks(loop)
    sums = dict.fromkeys(sum_of(op.accumulator, loop) for op in products)
    memories = [_in_front(alloc, loop, schedule) for alloc in sums if alloc is not None]
    placed = [alloc for alloc in memories if not _keeps_order(alloc, loop, schedule)]
    if not all(_keeps_order(alloc, loop, schedule, places=2) for alloc in placed):
        return False
    known = [op for op in products if State.UNKNOWN not in {state_of(v, loop, rings.loads) for v in factors(op)}]
    running = known if _has_room(known, rings) else []
    for root in dict.fromkeys(root_of(value).op for op in running for value in factors(op)):
        if isinstance(root, TmemAlloc) or (isinstance(root, LocalAlloc) and root not in rings.kept):
            _in_front(root, loop, schedule)  # type: ignore[type-var]  # either class, but the same
    for product in running:
        _run_on(product, loop, schedule, _accesses_of_others(product, loop, placed, rings.ahead))
    for alloc in placed:
        _give_places(alloc, loop, schedule)
    return True


def _taken_marks(loop: For) -> list[TensorCoreMma]:
    """The marked products of `loop` that may run on; none is marked any more."""
    marked = [op for op in body_of(loop) if isinstance(op, TensorCoreMma) and SELF_LATENCY in op.attributes]
    for op in marked:
        op.attributes = {name: value for name, value in op.attributes.items() if name != SELF_LATENCY}
    return [op for op in marked if may_run_on(op, loop)]


def _has_room(products: list[TensorCoreMma], rings: Rings) -> bool:
    """Whether shared memory has room for a place more in each ring that `products` read."""
    buffers = (root_of(value).op for op in products for value in factors(op) if is_in_shared_memory(value))
    allocs = {alloc for alloc in buffers if isinstance(alloc, LocalAlloc)}
    loads = {rings.kept[alloc] for alloc in allocs if alloc in rings.kept}
    others = sum(_bytes(alloc) for alloc in allocs if alloc not in rings.kept)
    room = SHARED_MEMORY - rings.bytes - others
    return not 0 <= room < BARRIERS + sum(rings.places[load] for load in loads)


def _bytes(alloc: LocalAlloc) -> int:
    type = buffer_type(alloc.result)
    return buffer_bytes(type, encoding(type.encoding))


# --- buffers ------------------------------------------------------------------------------------------------------


AnyAlloc = TypeVar("AnyAlloc", LocalAlloc, TmemAlloc)


def _in_front(alloc: AnyAlloc, loop: For, schedule: Schedule) -> AnyAlloc:
    """The buffer of `alloc` before `loop`; what it starts with is stored to it where it was allocated."""
    if not is_in(alloc, loop):
        return alloc
    old, source, slot = alloc.results[0], alloc.source, schedule.slots.pop(alloc)
    at = Writer(alloc, schedule, slot)
    kind = buffer_type(old)
    memory = MemDescType(kind.shape, kind.element, kind.encoding, kind.space, True, kind.alloc_shape)
    types = [memory, *(result.type for result in alloc.results[1:])]
    new = typed(Writer(loop).op(alloc.name, (), types), type(alloc))
    buffer, *tokens = new.results
    if source is not None and isinstance(alloc, LocalAlloc):
        at.op("ttg.local_store", (source, buffer))
    elif source is not None:
        stored = at.op("ttng.tmem_store", (buffer, tokens, source, at.constant(1, i1)), [async_token] if tokens else [])
        tokens = list(stored.results)
    alloc.replace([buffer, *tokens])
    if isinstance(new, LocalAlloc):
        Writer.after(loop).op("ttg.local_dealloc", (buffer,))
    retype_views(buffer)
    return new


def _give_places(alloc: TmemAlloc, loop: For, schedule: Schedule) -> None:
    """Give the accumulator of `alloc` two slots, which alternate across iterations of `loop`."""
    start = start_of(alloc, loop)
    assert start is not None, "the sum begins anew"
    accesses = list(accesses_to(alloc, loop))
    memory = alloc.results[0]
    type = buffer_type(memory)
    outside = [user for user in memory.uses if not is_in(user, loop)]
    number = carry(loop, Writer(loop).constant(0, i32))
    at = Writer(start.op, schedule, schedule.slots[start.op])
    other = at.compute("arith.xori", number, at.constant(1, i32))
    if start.adds is not None:
        other = at.compute("arith.select", start.adds, number, other)
    hand_on(loop, number, other)
    memory.type = MemDescType((2, *type.shape), type.element, type.encoding, type.space, True)
    is_old = True
    for op, access in accesses:
        is_old &= access is not start.op
        place = Writer(access, schedule if op is access else None, schedule.slots[op])
        _use(access, memory, place.view(memory, number if is_old else other))
    result = loop.results[number.index - 1]
    for user in outside:
        front = Writer(user)
        last = result if is_after(user, loop) else front.constant(0, i32)
        _use(user, memory, front.view(memory, last))


def _use(op: Op, old: Value, new: Value) -> None:
    op.set_operands([new if value is old else value for value in op.operands])


# --- the order of accesses ----------------------------------------------------------------------------------------


class _Times:
    """When the ops of a scheduled loop run for which iteration: numbers in the order of the unrolled loop."""

    def __init__(self, loop: For, schedule: Schedule) -> None:
        self.stages = {op: slot.stage for op, slot in schedule.in_order(loop)}
        self.places = {op: number for number, op in enumerate(self.stages)}

    def of(self, op: Op, step: int = 0) -> int:
        """When `op` runs for this iteration."""
        return (self.stages[op] + step) * len(self.places) + self.places[op]


def _keeps_order(alloc: TmemAlloc, loop: For, schedule: Schedule, places: int = 1) -> bool:
    """Whether the schedule of `loop` keeps the order of accesses to the sum of `alloc`, if that has so many places."""
    accesses = list(dict.fromkeys(accesses_to(alloc, loop)))
    start = start_of(alloc, loop)
    if places > 1 and (start is None or not _may_have_places(alloc, accesses, loop)):
        return False
    times = _Times(loop, schedule)
    begins = next((number for number, (_, access) in enumerate(accesses) if start and access is start.op), 0)
    for first, (op, access) in enumerate(accesses):
        for second, (other, later) in enumerate(accesses):
            if isinstance(access, TmemLoad) and isinstance(later, TmemLoad):
                continue
            if first < second and op is not other and times.of(op) > times.of(other):
                return False
            # What stands behind the start of the next iteration has another place, if there are two.
            distance = places if second >= begins else 1
            if times.of(op) >= times.of(other, distance):
                return False
    return True


def _may_have_places(alloc: TmemAlloc, accesses: Iterable[tuple[Op, Op]], loop: For) -> bool:
    """Whether tensor memory has room for two places, and all `accesses` are to the whole sum, not to views of it."""
    memory = alloc.results[0]
    return columns_of(alloc) <= free_columns(loop) and all(memory in access.operands for _, access in accesses)


# --- barriers and waits -------------------------------------------------------------------------------------------


class _Access(NamedTuple):
    """An access to what a product uses: inside `op` of the body; it conflicts with the product of these iterations.

    Attributes:
        op: the op of the loop's body.
        access: it, or an op in it.
        steps: 0 if it must not run before the product of its own iteration is done, 1 if before that of the previous
            iteration.
    """

    op: Op
    access: Op
    steps: tuple[int, ...]


class _Conflict(NamedTuple):
    """`op` of the loop's body must not run before a product is done, for this iteration behind the product's."""

    time: int
    op: Op
    access: Op
    step: int


def _run_on(product: TensorCoreMma, loop: For, schedule: Schedule, others: Iterable[_Access]) -> None:
    """Let `product` signal a barrier when it is done, and wait for it as late as possible."""
    conflicts = _conflicts(product, loop, schedule, others)
    slot = schedule.slots[product]
    # Two barriers: nobody may wait for longer than one iteration.
    done, front = allocate_barriers(loop, 2), Writer(loop)
    zero, one, two = (front.constant(value, i32) for value in (0, 1, 2))
    phase, number = carry(loop, zero), carry(loop, zero)
    at = Writer(product, schedule, slot)
    barrier = at.view(done, number)
    set_operand_groups(product, {"barriers": [barrier], "barrier_preds": [at.constant(1, i1)]})
    product.attributes = {**product.attributes, "is_async": UNIT}
    operands = factors(product)
    wait_slot = Slot(slot.stage + 1, slot.cluster)
    for conflict in conflicts:
        if conflict.op is conflict.access or conflict.step:
            between = _split_before(conflict.op, loop, schedule)
            wait_slot = Slot(schedule.slots[conflict.op].stage + conflict.step, between)
            break
        Writer(conflict.access).op("ttng.wait_barrier", [barrier, phase, [], operands])
    Writer.after(product, schedule, wait_slot).op("ttng.wait_barrier", [barrier, phase, [], operands])
    # The other barrier is the next iteration's, in another phase when both have been used.
    end = Writer(loop.body.terminator, schedule, schedule.slots[product])
    other_phase = end.compute("arith.xori", phase, one)
    following, wraps = end.next_of(number, two, zero, one)
    hand_on(loop, number, following)
    hand_on(loop, phase, end.compute("arith.select", wraps, other_phase, phase))


def _conflicts(product: Op, loop: For, schedule: Schedule, others: Iterable[_Access]) -> list[_Conflict]:
    """The accesses that must not run before `product` is done, in order, up to the product of the next iteration."""
    times = _Times(loop, schedule)
    start, end = times.of(product), times.of(product, 1)
    found = [_Conflict(times.of(op, step), op, access, step) for op, access, steps in others for step in steps]
    between = [conflict for conflict in found if start < conflict.time < end]
    return sorted(between, key=lambda conflict: (conflict.time, conflict.op is conflict.access))


def _accesses_of_others(
    product: TensorCoreMma, loop: For, placed: Collection[TmemAlloc], ahead: Collection[Op]
) -> list[_Access]:
    """The accesses of `loop` to what `product` uses, but for products that add to its sum and loads that run ahead."""
    alloc = sum_of(product.accumulator, loop)
    assert alloc is not None, "the sum is known"
    start = start_of(alloc, loop) if alloc in placed else None
    found = []
    is_same_place = True
    for op, access in accesses_to(alloc, loop):
        is_same_place &= start is None or access is not start.op
        if not (isinstance(access, TensorCoreMma) and root_of(access.accumulator) is alloc.results[0]):
            found.append(_Access(op, access, (0, 1) if is_same_place else (0,)))
    for root in dict.fromkeys(root_of(value) for value in factors(product)):
        stores = [op for op in users_through_views(root) if isinstance(op, LocalStore | TmemStore)]
        filled = [root.op.source.op] if isinstance(root.op, LocalAlloc) and root.op.source is not None else []
        writers = [*stores, *(op for op in filled if op is not None and op not in ahead)]
        found += [_Access(op, op, (0, 1)) for op in writers if op.block is loop.body]
    return found


def _split_before(op: Op, loop: For, schedule: Schedule) -> Cluster:
    """A new cluster before `op` and of those that run behind it in its cluster."""
    cluster = schedule.slots[op].cluster
    group = [other for other, slot in schedule.in_order(loop) if slot.cluster is cluster]
    rest = group[group.index(op) :]
    if len(rest) == len(group):
        return schedule.cluster_before(cluster)
    after = schedule.cluster_after(cluster)
    for other in rest:
        schedule.insert(other, Slot(schedule.slots[other].stage, after))
    return schedule.cluster_before(after)


def allocate_barriers(loop: For, count: int, arrivals: int = 1) -> Value:
    """Barriers that are ready before `loop` and given up behind it; each counts so many arrivals in a phase."""
    front, after = Writer(loop), Writer.after(loop)
    barriers = front.emit("ttg.local_alloc", (), barriers_type(loop, count))
    for number in range(count):
        barrier = front.view(barriers, front.constant(number, i32))
        front.op("ttng.init_barrier", (barrier,), (), {"count": Number(arrivals, i32)})
    for number in range(count):
        after.op("ttng.inval_barrier", (after.view(barriers, after.constant(number, i32)),))
    after.op("ttg.local_dealloc", (barriers,))
    return barriers
