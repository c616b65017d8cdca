"""Reduction splitting: the phases of a nest, which are its inner loops, and the phase of each sink.

A result of a reduction exists only after the whole inner loop, so its users run in the next phase:

    phase 0   loop: m = max(x)
    phase 1   loop: s += exp(x - m)
    phase 2   loop: store exp(x - m) / s

A store runs no earlier than any other sink that loads, and than earlier stores; likewise a write to a buffer relative
to other accesses to the buffer. Within a phase, values of which rows have one element are stored last, because longer
ones may be computed from them. A read of a buffer that the nest has written runs in a later phase than the write,
because a phase computes before it stores.

`split_reductions` keeps a value that is EXPENSIVE and needed in two phases in a buffer of one row, unless the later
phase needs elements of other rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.analysis.value_flow import backward_slice
from tilewright.backends.cpu.costs import EXPENSIVE, SINKS, cost, inputs, is_sink, is_tile, tile_operand
from tilewright.dialects.cpu import Accumulate, Read, Write, buffer_type
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Cat, Gather, Join, Reshape, Split, Trans
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import TensorType
from tilewright.support.cached_property import cached_property


class Nest:
    """A finished cpu.nest, its sinks, and what each is computed from."""

    def __init__(self, op: NestOp) -> None:
        self.op, self.body = op, op.body
        self.outer, self.mode, self.axis = op.outer, op.mode, op.axis
        self.sinks = self.body.ops_of(SINKS)
        self.phases = self._phases() if self._has_waits() else dict.fromkeys(self.sinks, 0)

    @cached_property
    def closures(self) -> dict[Op, dict[Op, None]]:
        """The `closure` of each sink."""
        return {sink: self.closure(sink) for sink in self.sinks}

    @cached_property
    def _loading(self) -> set[Op]:
        loads = self.body.ops_of(Load)
        return {sink for sink in self.sinks if any(load in self.closures[sink] for load in loads)}

    @cached_property
    def _reads(self) -> dict[Op, list[Read]]:
        reads, has_loop = self.body.ops_of(Read), Accumulate in self.body.kinds
        if not reads:
            return {sink: [] for sink in self.sinks}
        closures = {sink: self.closure(sink, (Reduce,)) for sink in self.sinks} if has_loop else self.closures
        return {sink: [read for read in reads if read in closures[sink]] for sink in self.sinks}

    def closure(self, user: Op, ends: tuple[type[Op], ...] = (Reduce, Accumulate)) -> dict[Op, None]:
        """Ops inside that `user` is computed from, but not what those that are `ends` are computed from."""
        seen: dict[Op, None] = {}
        body, stack = self.body, list(user.operands)
        has_loop = Accumulate in body.kinds
        while stack:
            op = stack.pop().op
            if op is None or op in seen or op.block is not body:
                continue
            seen[op] = None
            if type(op) not in ends:
                stack += inputs(op) if has_loop else op.operands
        return seen

    def _has_waits(self) -> bool:
        """Whether a sink may have to wait for a reduction, or for a write to a buffer that is read."""
        if len(self.sinks) == 1:  # there is no other one
            return False
        if self.body.ops_of(Reduce):
            return True
        return bool(self.body.ops_of(Write)) and bool(self.body.ops_of(Read))

    def _phases(self) -> dict[Op, int]:
        """The first phase that each sink may run in: what one waits for only grows, until nothing changes."""
        place = {op: number for number, op in enumerate(self.body.ops())}
        reduces = self.body.ops_of(Reduce)
        reductions = {sink: [op for op in reduces if op in self.closures[sink]] for sink in self.sinks}
        writes = {sink: self._writes_before(sink, place) for sink in self.sinks}
        others: dict[Op, list[Op]] = {
            sink: [other for other in self.sinks if self._must_not_precede(sink, other, place)]
            for sink in self.sinks
            if isinstance(sink, (WritesMemory, Write))
        }
        phases = dict.fromkeys(self.sinks, 0)
        before: dict[Op, int] = {}
        while before != phases:
            before = dict(phases)
            for sink in self.sinks:
                finished = max((phases[op] + 1 for op in (*reductions[sink], *writes[sink])), default=0)
                phases[sink] = max([phases[sink], finished, *(phases[other] for other in others.get(sink, ()))])
            assert max(phases.values(), default=0) <= len(phases), "sinks of a nest wait for each other in a circle"
        return phases

    def _writes_before(self, sink: Op, place: dict[Op, int]) -> list[Write]:
        """The writes of the nest whose buffers `sink` reads afterwards."""
        writes = self.body.ops_of(Write) if self._reads[sink] else []
        reads = [(read.buffer, place[read]) for read in self._reads[sink]]
        return [w for w in writes if any(w.buffer is buffer and place[w] < at for buffer, at in reads)]

    def _must_not_precede(self, sink: WritesMemory | Write, other: Op, place: dict[Op, int]) -> bool:
        """Whether `sink` changes memory that `other` reads, or has changed before.

        A load of the nest precedes all its stores in program order, so it may be repeated in a late phase.
        """
        if isinstance(sink, WritesMemory):
            return other in self._loading or (isinstance(other, WritesMemory) and place[other] < place[sink])
        buffer = sink.buffer
        if isinstance(other, Write) and other.buffer is buffer and place[other] < place[sink]:
            return True
        return any(read.buffer is buffer and place[read] < place[sink] for read in self._reads[other])

    def loops(self, phase: int) -> list[tuple[int, list[Op]]]:
        """The inner loops of a phase: extents, and the sinks that share each loop; that of one element comes last."""
        loops: dict[int, list[Op]] = {}
        for sink in self.sinks:
            if self.phases[sink] == phase and not self.is_row_level(tile_operand(sink)):
                loops.setdefault(self.inner_extent(sink), []).append(sink)
        return sorted(loops.items(), key=lambda loop: loop[0] == 1)

    def every_loop(self) -> list[tuple[int, int, list[Op]]]:
        """The inner loops of all phases: the phase, the extent, and the sinks that share the loop."""
        return [(phase, *loop) for phase in sorted(set(self.phases.values())) for loop in self.loops(phase)]

    def is_row_level(self, value: Value) -> bool:
        """Whether `value` has one element per iteration of the outer loops."""
        return not is_tile(value) or value.type.shape == self.outer

    def inner_extent(self, sink: Op) -> int:
        """The number of elements of the inner loop for `sink`; 1 when it needs none."""
        value = tile_operand(sink)
        if self.is_row_level(value):
            return 1
        shape = value.type.shape or (1,)
        return shape[self.axis]


STREAMING = 24
TRANSCENDENTAL = 12
"""A loop is bound by memory up to the total cost STREAMING per element, without an op of cost TRANSCENDENTAL."""


def is_bound_by_memory(nest: Nest, ops: Iterable[Op]) -> bool:
    """Whether `ops`, the body of a loop of `nest`, mostly move memory."""
    costs = [cost(op) for op in ops for v in op.results if not nest.is_row_level(v)]
    return sum(costs) <= STREAMING and max(costs, default=0) < TRANSCENDENTAL


def split_reductions(module: Op) -> bool:
    """Keep EXPENSIVE values that two phases of a nest need in a buffer of one row; returns whether there are any."""
    split = [_spill(Nest(op)) for op in module.ops_of(NestOp) if op.mode == "rows"]
    return any(split)


def _spill(nest: Nest) -> bool:
    if len(set(nest.phases.values())) < 2:
        return False
    spilled, early = dict[Value, Value](), set[Op]()
    for phase in sorted(set(nest.phases.values())):
        sinks = [sink for sink in nest.sinks if nest.phases[sink] == phase]
        for sink in sinks if early else ():
            _cut(sink, sink, nest, early, spilled, set())
        early.update(*(nest.closures[sink] for sink in sinks))
    return bool(spilled)


def _cut(user: Op, sink: Op, nest: Nest, early: set[Op], spilled: dict[Value, Value], seen: set[Op]) -> None:
    """Let what only `sink`'s phase computes read values that an earlier phase has computed."""
    if user in seen or not _keeps_rows(user, nest):
        return
    seen.add(user)
    for index, value in enumerate(user.operands):
        op = value.op
        if op is None or op.block is not nest.body or is_sink(op) or nest.is_row_level(value):
            continue
        if value in spilled or (op in early and _fills_rows(value, nest) and _weight(value, nest) >= EXPENSIVE):
            if value not in spilled:
                spilled[value] = _row_buffer(value, nest, nest.phases[sink])
            user.set_operand(index, spilled[value])
        else:
            _cut(op, sink, nest, early, spilled, seen)


def _keeps_rows(op: Op, nest: Nest) -> bool:
    """Whether each row of what `op` gives, or does, comes from the same row of its operands."""
    if isinstance(op, Trans):
        return list(op.order[: len(nest.outer)]) == list(range(len(nest.outer)))
    if isinstance(op, Gather):
        return op.axis >= len(nest.outer)
    if isinstance(op, (Cat, Join, Reshape, Split)):
        tiles = [value.type.shape or () for value in (*op.operands, *op.results)]
        return all(shape[: len(nest.outer)] == nest.outer for shape in tiles)
    return True


def _fills_rows(value: Value, nest: Nest) -> bool:
    """Whether `value` has several elements per row: a buffer of one element would be read before the rows."""
    shape = value.type.shape or ()
    return shape[:-1] == nest.outer and shape[-1] > 1


def _weight(value: Value, nest: Nest) -> int:
    """The cost of computing one element of `value` in the inner loop."""

    def is_in_loop(op: Op) -> bool:
        return op.block is nest.body and not nest.is_row_level(op.results[0]) and not is_sink(op)

    return sum(map(cost, backward_slice(value, is_in_loop)))


def _may_come_first(write: Write, op: Op, before: int, nest: Nest) -> bool:
    """Whether `write` may stand right behind `op`, for a phase `before` which it is over.

    It is not over before a sink of that phase that reads what its buffer had. And nothing in between uses the buffer.
    """
    if write.row or nest.phases[write] >= before:
        return False
    between = op.next
    while between is not None and between is not write:
        if isinstance(between, (Read, Write)) and between.buffer is write.buffer:
            return False
        between = between.next
    return True


def _row_buffer(value: Value, nest: Nest, phase: int) -> Value:
    """Write `value` to a buffer of one row where it is computed; returns a read of it for `phase`."""
    op, block, tile = value.op, nest.op.block, tile_type(value)
    assert op is not None
    assert block is not None
    for user in value.uses:
        if isinstance(user, Write) and _may_come_first(user, op, phase, nest):
            user.unlink()
            nest.body.insert(user, op.next)
            read = Op.create("cpu.read", (user.buffer,), (value.type,), location=op.location)
            return nest.body.insert(read, user.next).result
    row = TensorType(tile.shape[-1:], tile.element)
    buffer = block.insert(Op.create("cpu.alloc", (), (buffer_type(row),), location=op.location), nest.op).result
    write = Op.create("cpu.write", (value, buffer), (), {"row": True}, location=op.location)
    nest.body.insert(write, op.next)
    read = Op.create("cpu.read", (buffer,), (value.type,), {"row": True}, location=op.location)
    return nest.body.insert(read, write.next).result
