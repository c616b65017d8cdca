"""A coarse schedule of a loop: a stage and a cluster for each op.

    %x = tt.load %p     {loop.stage = 0 : i32, loop.cluster = 1 : i32}
    %y = arith.addf %x  {loop.stage = 2 : i32, loop.cluster = 0 : i32}      } {tt.scheduled_max_stage = 2 : i32}

In each iteration of the pipelined loop the ops of stage s execute the original iteration that is s iterations behind
that of stage 0. The clusters run one after another, and the ops of one cluster in their original order.

at = Writer(load, schedule, slot)
view = at.view(buffer, index)          a `ttg.memdesc_index` before `load`, in `slot` of the schedule
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from tilewright.analysis.live_ranges import inner_first
from tilewright.dialects.scf import For
from tilewright.dialects.traits import Loop
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, buffer_type, integer_in, typed
from tilewright.ir.types import MemDescType, i32
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.op_builder import OpBuilder, OpT

AnyLoop = TypeVar("AnyLoop", bound=Loop)
STAGE = "loop.stage"
CLUSTER = "loop.cluster"
LAST_STAGE = "tt.scheduled_max_stage"
WARP_SPECIALIZE = "tt.warp_specialize"
"""The attribute of a loop that the program asks to be divided among warp groups."""


class Cluster:
    """A group of ops that run together; schedules keep them in order."""


class Slot(NamedTuple):
    """The place of an op in a schedule."""

    stage: int
    cluster: Cluster


class Schedule:
    """The slots of the ops of a loop.

    Attributes:
        stages: how many stages there are.
        clusters: in the order in which they run.
        slots: of the ops that have one.
    """

    def __init__(self, stages: int = 0) -> None:
        self.stages = stages
        self.clusters: list[Cluster] = []
        self.slots: dict[Op, Slot] = {}

    # Text

    @classmethod
    def read(cls, loop: For) -> Schedule | None:
        """The schedule in the attributes of an `scf.for`; None if it has none."""
        last = integer_in(loop, LAST_STAGE)
        if last is None:
            return None
        schedule = cls(last + 1)
        found = [(op, integer_in(op, STAGE), integer_in(op, CLUSTER)) for op in body_of(loop)]
        numbers = [cluster for _, _, cluster in found if cluster is not None]
        first = min(numbers, default=0)
        schedule.clusters = [Cluster() for _ in range(first, max(numbers, default=-1) + 1)]
        for op, stage, cluster in found:
            if stage is not None and cluster is not None:
                schedule.insert(op, Slot(stage, schedule.clusters[cluster - first]))
        return schedule

    def write(self, loop: For) -> None:
        """Put the schedule into the attributes of `loop` and its ops."""
        numbers = {cluster: number for number, cluster in enumerate(self.clusters)}
        for op in body_of(loop):
            slot = self.slots.get(op)
            if slot is not None:
                place = {CLUSTER: Number(numbers[slot.cluster], i32), STAGE: Number(slot.stage, i32)}
                op.attributes = {**op.attributes, **place}
        last = max(self.stages - 1, integer_in(loop, LAST_STAGE) or 0)
        loop.attributes = {**loop.attributes, LAST_STAGE: Number(last, i32)}

    # Clusters

    def first_cluster(self) -> Cluster:
        """A new cluster before all."""
        self.clusters.insert(0, Cluster())
        return self.clusters[0]

    def last_cluster(self) -> Cluster:
        """A new cluster behind all."""
        self.clusters.append(Cluster())
        return self.clusters[-1]

    def cluster_before(self, cluster: Cluster) -> Cluster:
        """A new cluster just before `cluster`."""
        new = Cluster()
        self.clusters.insert(self.clusters.index(cluster), new)
        return new

    def cluster_after(self, cluster: Cluster) -> Cluster:
        """A new cluster just behind `cluster`."""
        new = Cluster()
        self.clusters.insert(self.clusters.index(cluster) + 1, new)
        return new

    def is_before(self, a: Cluster, b: Cluster) -> bool:
        """Whether the ops of `a` run before those of `b`."""
        return a is not b and self.clusters.index(a) < self.clusters.index(b)

    # Ops

    def insert(self, op: Op, slot: Slot) -> None:
        """Give `op` this slot."""
        self.slots[op] = slot
        self.stages = max(self.stages, slot.stage + 1)

    def insert_new(self, op: Op, slot: Slot) -> bool:
        """Give `op` this slot unless it has one; returns whether it got it."""
        if op in self.slots:
            return False
        self.insert(op, slot)
        return True

    def insert_earlier(self, op: Op, slot: Slot) -> bool:
        """Give `op` this slot unless it has one that is as early; returns whether it got it."""
        old = self.slots.get(op)
        if old is not None:
            same_stage = slot.stage == old.stage
            if slot.stage > old.stage or (same_stage and not self.is_before(slot.cluster, old.cluster)):
                return False
        self.slots[op] = slot
        return True

    def insert_needed(self, op: Op, slot: Slot, *, around: bool = False) -> None:
        """Let what `op` needs run no later than `slot`; with `around` also what it needs of the previous iteration."""
        for value in values_used(op):
            source = (_through_steps(value, op) if around else value).op
            if source is not None and source.block is op.block and self.insert_earlier(source, slot):
                self.insert_needed(source, slot, around=around)

    def insert_all_needed(self, loop: For) -> None:
        """Let what each op of the schedule needs run no later than the op."""
        ops = list(self.in_order(loop))
        for stage in range(self.stages):
            for op, slot in ops:
                if slot.stage == stage:
                    self.insert_needed(op, slot)

    def in_order(self, loop: For) -> Iterator[tuple[Op, Slot]]:
        """The ops of `loop` that have a slot, in the order in which they run in one iteration."""
        groups: dict[Cluster, list[tuple[Op, Slot]]] = {cluster: [] for cluster in self.clusters}
        for op in body_of(loop):
            slot = self.slots.get(op)
            if slot is not None:
                groups[slot.cluster].append((op, slot))
        for group in groups.values():
            yield from group

    def first(self, ops: Iterable[Op]) -> Op | None:
        """The op of `ops`, which are in one block, that runs first in the unrolled loop."""
        places = {cluster: number for number, cluster in enumerate(self.clusters)}
        candidates = [(self.slots[op].stage, places[self.slots[op].cluster], op) for op in ops]
        if not candidates:
            return None
        earliest = min(stage_and_cluster[:2] for stage_and_cluster in candidates)
        tied = {op for stage, cluster, op in candidates if (stage, cluster) == earliest}
        (block,) = {op.block for op in tied}
        assert block is not None, "ops of a loop are in its block"
        return next(op for op in block if op in tied)


def forget_schedule(op: Op) -> None:
    """Take the stages and clusters from `op` and the ops inside."""
    for inner in op.walk():
        if STAGE in inner.attributes or LAST_STAGE in inner.attributes:
            kept = {name: value for name, value in inner.attributes.items() if name not in (STAGE, CLUSTER, LAST_STAGE)}
            inner.attributes = kept


def loops_of(op: Op, kind: type[AnyLoop]) -> list[AnyLoop]:
    """The loops in `op` of this class, inner ones before those around them."""
    return [inner for inner in inner_first(op) if isinstance(inner, kind)]


def body_of(loop: For) -> Iterator[Op]:
    """The ops of a loop's body but for the terminator."""
    return (op for op in loop.body if not op.definition.terminator)


def values_used(op: Op) -> Iterator[Value]:
    """The values that `op` uses, also within its regions."""
    for inner in op.walk():
        yield from inner.operands


def carried_from(value: Value, loop: For) -> Value | None:
    """The value that `value` is in the next iteration if it is a carried argument of the body of `loop`; else None."""
    if value.owner is not loop.body or value.index == 0:
        return None
    return loop.yielded[value.index - 1]


def _through_steps(value: Value, op: Op) -> Value:
    """`value`, or what the previous iterations computed it from if they hand it on."""
    loop = typed(op.parent, For)
    seen: set[Value] = set()
    while value not in seen and (before := carried_from(value, loop)) is not None:
        seen.add(value)
        value = before
    return value


class Writer(OpBuilder):
    """Puts ops before one that is there, and into the schedule of a loop.

    Attributes:
        slot: what the schedule says of the new ops; None: nothing.
    """

    def __init__(self, before: Op, schedule: Schedule | None = None, slot: Slot | None = None) -> None:
        super().__init__(before)
        self.schedule, self.slot = schedule, slot

    @classmethod
    def after(cls, op: Op, schedule: Schedule | None = None, slot: Slot | None = None) -> Writer:
        """Writes behind `op` instead of before it."""
        writer = cls(op, schedule, slot)
        writer.before = op.next
        return writer

    def insert(self, op: OpT) -> OpT:
        """Put an op to this place."""
        if self.schedule is not None and self.slot is not None:
            self.schedule.insert(op, self.slot)
        return super().insert(op)

    def view(self, buffers: Value, index: Value) -> Value:
        """One of several buffers."""
        type = buffer_type(buffers)
        view = MemDescType(type.shape[1:], type.element, type.encoding, type.space, type.mutable)
        return self.emit("ttg.memdesc_index", (buffers, index), view)

    def next_of(self, counter: Value, count: Value, zero: Value, one: Value) -> tuple[Value, Value]:
        """The number after `counter` among 0 … `count` - 1, and whether that began again."""
        more = self.compute("arith.addi", counter, one)
        wraps = self.compare("sge", more, count)
        return self.compute("arith.select", wraps, zero, more), wraps


def carry(loop: For, initial: Value) -> Value:
    """Let `loop` carry one more value, as it is until `hand_on` says otherwise; returns the argument."""
    argument = add_carried(loop, initial)
    loop.body.terminator.set_operands([*loop.yielded, argument])
    return argument


def hand_on(loop: For, argument: Value, value: Value) -> None:
    """Let the next iteration of `loop` see `value` as `argument`."""
    loop.body.terminator.set_operand(argument.index - 1, value)
