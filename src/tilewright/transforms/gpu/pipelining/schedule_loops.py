"""Loop scheduling: latencies become stages, and all other ops are placed around those that have one.

    %x = tt.load %p {tt.latency = 2 : i32}          %x = tt.load %p     {loop.cluster = 2 : i32, loop.stage = 0 : i32}
    %y = arith.addf %acc, %x                  ->    %y = arith.addf …   {loop.cluster = 0 : i32, loop.stage = 2 : i32}

The longest path from an op to the end of its loop, in latencies, gives its stage. Later stages come first within an
iteration, so that their inputs have been available for long. Branches that loads depend on go to the front, others to
the end; ops needed only by the next iteration go one stage further, before their user; the rest belongs to the last
stage. Accesses to global memory that may alias stay in one stage and in their order; otherwise the loop has no
schedule.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.analysis.memory_origins import global_accesses
from tilewright.analysis.value_flow import forward_slice
from tilewright.dialects.builtin import Barrier
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import Assert, Print
from tilewright.dialects.ttg_async import AsyncCopyGlobalToLocal
from tilewright.dialects.ttg_memory import LocalLoad, LocalStore
from tilewright.dialects.ttg_program import ScopedBarrier
from tilewright.dialects.ttng_barriers import ArriveBarrier, WaitBarrier
from tilewright.dialects.ttng_descriptors import DescriptorCopy
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemLoad, TmemStore
from tilewright.ir.core import Op, integer_in
from tilewright.transforms.gpu.pipelining.assign_latencies import LATENCY, can_be_pipelined
from tilewright.transforms.gpu.pipelining.schedule import (
    LAST_STAGE,
    WARP_SPECIALIZE,
    Cluster,
    Schedule,
    Slot,
    body_of,
    carried_from,
    loops_of,
    values_used,
)

BARRIERS = (ScopedBarrier, Barrier, Assert, Print)
"""Ops that must not move to another iteration."""
ASYNCHRONOUS = (
    *(Load, DescriptorRead, LocalStore, LocalLoad, TmemLoad, TmemStore),
    *(AsyncCopyGlobalToLocal, DescriptorCopy, WaitBarrier, ArriveBarrier, TensorCoreMma),
)
"""Ops for whose sake a part of a loop that several warp groups share keeps its stages."""


def schedule_loops(root: Op) -> bool:
    """Assign stages and clusters to the ops of the loops in `root`, according to their latencies."""
    latencies = _taken_latencies(root)
    changed = bool(latencies)
    for loop in loops_of(root, For):
        schedule = _initial(loop, latencies)
        if schedule is not None and schedule.slots:
            _complete(loop, schedule)
            if _keeps_memory_order(loop, schedule):
                schedule.write(loop)
                changed = True
    return changed


def _taken_latencies(root: Op) -> dict[Op, int]:
    """The latencies of all ops; the attributes have served their purpose."""
    found: dict[Op, int] = {}
    for op in root.walk():
        latency = integer_in(op, LATENCY)
        if latency is not None:
            found[op] = latency
            op.attributes = {name: value for name, value in op.attributes.items() if name != LATENCY}
    return found


def _keeps_memory_order(loop: For, schedule: Schedule) -> bool:
    """Whether accesses to global memory that may alias keep their order in an iteration, and stay in one stage."""
    accesses = global_accesses(loop)
    for number, first in enumerate(accesses):
        for second in accesses[number + 1 :]:
            if first.may_meet(second) and not _in_order(first.op, second.op, loop, schedule):
                return False
    return True


def _in_order(first: Op, second: Op, loop: For, schedule: Schedule) -> bool:
    """Whether the schedule runs `first` before `second`, and both in the same stage."""
    ops = [ancestor_in(op, loop.body) for op in (first, second)]
    before, after = (schedule.slots[op] for op in ops if op is not None)
    return before.stage == after.stage and not schedule.is_before(after.cluster, before.cluster)


def _complete(loop: For, schedule: Schedule) -> None:
    """Find slots for the ops of `loop` that have none."""
    start = _schedule_branches(loop, schedule)
    schedule.insert_all_needed(loop)
    _schedule_carried(loop, schedule)
    _schedule_rest(loop, schedule, start)


# --- the ops with latencies, and what follows them ----------------------------------------------------------------


def _initial(loop: For, latencies: Mapping[Op, int]) -> Schedule | None:
    if not can_be_pipelined(loop) or any(isinstance(op, BARRIERS) for op in loop.walk()):
        return None
    if any(op in latencies for op in body_of(loop)):
        return _by_latency(loop, latencies)
    if WARP_SPECIALIZE in loop.attributes and LAST_STAGE in loop.attributes:
        return _partial(loop)
    return None


def _by_latency(loop: For, latencies: Mapping[Op, int]) -> Schedule:
    """Slots for all ops that something with a latency leads to."""
    distances = _distances(loop, latencies)
    longest = max(0, *distances.values())
    stages = {op: longest - distance for op, distance in distances.items()}
    last = max(stages.values())
    schedule = Schedule(last + 1)
    clusters = [schedule.last_cluster() for _ in range(schedule.stages)]
    for op, stage in stages.items():
        schedule.insert(op, Slot(stage, clusters[last - stage]))
    # Branches that nothing in the schedule waits for do not hold up the rest.
    end = schedule.last_cluster()
    for op, stage in stages.items():
        if (
            isinstance(op, If)
            and op not in latencies
            and not any(user in stages for result in op.results for user in forward_slice(result))
        ):
            schedule.insert(op, Slot(stage, end))
    return schedule


def _distances(loop: For, latencies: Mapping[Op, int]) -> dict[Op, int]:
    """Per op that is reached from one with a latency: the longest way to the end of the loop's body."""
    body = loop.body
    reached: dict[Op, None] = {}
    users: dict[Op, list[Op]] = {}
    for op in body_of(loop):
        if op not in latencies and op not in reached:
            continue
        direct = (ancestor_in(user, body) for result in op.results for user in result.uses)
        users[op] = [user for user in direct if user is not None and user is not body.last]
        reached.update(dict.fromkeys((op, *users[op])))
    found: dict[Op, int] = {}
    for op in reversed(users):
        found[op] = latencies.get(op, 0) + max((found[user] for user in users[op]), default=0)
    return found


def _partial(loop: For) -> Schedule | None:
    """The old schedule of a loop of which other warp groups run the rest, without stages that nothing needs."""
    schedule = Schedule.read(loop)
    assert schedule is not None, "the loop has a schedule"
    stages = {slot.stage for op, slot in schedule.slots.items() if isinstance(op, ASYNCHRONOUS)}
    if len(stages) > 1:
        return _shrunk(schedule)
    flat = Schedule(1)
    cluster = flat.first_cluster()
    for op in body_of(loop):
        flat.insert(op, Slot(0, cluster))
    return flat


def _shrunk(schedule: Schedule) -> Schedule:
    """Count stages from 0 to the last that there is."""
    stages = [slot.stage for slot in schedule.slots.values()]
    first = min(stages)
    schedule.slots = {op: Slot(stage - first, cluster) for op, (stage, cluster) in schedule.slots.items()}
    schedule.stages = max(stages) - first + 1
    return schedule


# --- the others ---------------------------------------------------------------------------------------------------


def _schedule_branches(loop: For, schedule: Schedule) -> Cluster:
    """Branches that scheduled ops need come first, the others last; returns the first cluster after the former."""
    needed: dict[Op, int] = {}
    ops = list(schedule.in_order(loop))
    start = schedule.clusters[0]
    seen: set[Op] = set()
    for stage in range(schedule.stages):
        for op, slot in ops:
            if slot.stage == stage:
                for branch in _branches_after(op, seen):
                    needed.setdefault(branch, stage)
    if needed:
        front = schedule.first_cluster()
        for branch, stage in needed.items():
            schedule.insert_new(branch, Slot(stage, front))
    end = schedule.last_cluster()
    for op in body_of(loop):
        if isinstance(op, If) and op not in needed:
            schedule.insert_new(op, Slot(schedule.stages - 1, end))
    return start


def _branches_after(op: Op, seen: set[Op]) -> list[Op]:
    """The branches that what `op` uses is computed by, within one iteration; what is in `seen` was looked at before."""
    found: list[Op] = []
    waiting = [op]
    while waiting:
        for value in values_used(waiting.pop()):
            source = value.op
            if source is not None and source not in seen:
                seen.add(source)
                waiting.append(source)
                if isinstance(source, If):
                    found.append(source)
    return found


def _schedule_carried(loop: For, schedule: Schedule) -> None:
    """Place operands of scheduled ops from the previous iteration: loads join them, others come one stage later."""
    in_front: dict[Cluster, Cluster] = {}
    for op in body_of(loop):
        slot = schedule.slots.get(op)
        if slot is None or slot.stage == schedule.stages - 1:
            continue
        for value in values_used(op):
            carried = carried_from(value, loop)
            source = carried.op if carried is not None else None
            if source is None or source in schedule.slots:
                continue
            if isinstance(source, Load):
                place = slot
            else:
                if slot.cluster not in in_front:
                    in_front[slot.cluster] = schedule.cluster_before(slot.cluster)
                place = Slot(slot.stage + 1, in_front[slot.cluster])
            schedule.insert(source, place)
            if source.block is op.block:
                schedule.insert_needed(source, place, around=True)


def _schedule_rest(loop: For, schedule: Schedule, start: Cluster) -> None:
    """Place all that is left in the last stage, in `start` or as late as what it uses."""
    last = schedule.stages - 1
    clusters = {op: start for op in body_of(loop) if op not in schedule.slots}
    waiting = [op for op, slot in schedule.in_order(loop) if slot.stage == last]
    while waiting:
        op = waiting.pop()
        own = clusters[op] if op in clusters else schedule.slots[op].cluster
        for user in (user for result in op.results for user in result.uses):
            if user in clusters and schedule.is_before(clusters[user], own):
                clusters[user] = own
                waiting.append(user)
    for op, cluster in clusters.items():
        schedule.insert(op, Slot(last, cluster))
