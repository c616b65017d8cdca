"""The phases of a nest: which of its inner loops each root runs in.

A result of a reduction exists only after the whole inner loop, so what needs it runs in the next phase:

    phase 0   loop: m = max(x)
    phase 1   loop: s += exp(x - m)
    phase 2   loop: store exp(x - m) / s

A store runs no earlier than any other root that loads, and than stores before it; so does a write to a buffer next to
what else is done with the buffer. What reads a buffer that the nest has written runs in a later phase than the write: a
phase computes before it stores.

`spill_phases` keeps a value that is EXPENSIVE and needed in two phases in a buffer of one row.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.backends.cpu.costs import EXPENSIVE, ROOTS, cost, is_tile, tile_operand
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.cpu import Read, Write, buffer_type
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import TensorType


class Nest:
    """A finished cpu.nest, its roots, and what each is computed from."""

    def __init__(self, op: NestOp) -> None:
        self.op, self.body = op, op.body
        self.outer, self.mode, self.axis = op.outer, op.mode, op.axis
        self.roots: list[Op] = [o for o in self.body if isinstance(o, ROOTS)]
        self.closures = {root: self._closure(root) for root in self.roots}
        self._loading = {root for root in self.roots if any(isinstance(op, Load) for op in self.closures[root])}
        self._reads = {root: [op for op in self.closures[root] if isinstance(op, Read)] for root in self.roots}
        self.phases = self._phases()

    def _closure(self, root: Op) -> dict[Op, None]:
        """Ops inside that `root` is computed from, but not what reductions are computed from."""
        seen: dict[Op, None] = {}
        stack = list(root.operands)
        while stack:
            op = stack.pop().op
            if op is None or op in seen or op.block is not self.body:
                continue
            seen[op] = None
            if not isinstance(op, Reduce):
                stack.extend(op.operands)
        return seen

    def _phases(self) -> dict[Op, int]:
        """The first phase that each root may run in: what one waits for only grows, until nothing changes."""
        place = {op: number for number, op in enumerate(self.body)}
        reductions = {root: [op for op in self.closures[root] if isinstance(op, Reduce)] for root in self.roots}
        writes = {root: self._writes_before(root, place) for root in self.roots}
        others = {root: [o for o in self.roots if self._must_not_precede(root, o, place)] for root in self.roots}
        phases = dict.fromkeys(self.roots, 0)
        before: dict[Op, int] = {}
        while before != phases:
            before = dict(phases)
            for root in self.roots:
                finished = max((phases[op] + 1 for op in (*reductions[root], *writes[root])), default=0)
                phases[root] = max([phases[root], finished, *(phases[other] for other in others[root])])
            assert max(phases.values(), default=0) <= len(phases), "roots of a nest wait for each other in a circle"
        return phases

    def _writes_before(self, root: Op, place: dict[Op, int]) -> list[Write]:
        """The writes of the nest whose buffers `root` reads afterwards."""
        writes = [w for w in self.roots if isinstance(w, Write)] if self._reads[root] else []
        reads = [(read.buffer, place[read]) for read in self._reads[root]]
        return [w for w in writes if any(w.buffer is buffer and place[w] < at for buffer, at in reads)]

    def _must_not_precede(self, root: Op, other: Op, place: dict[Op, int]) -> bool:
        """Whether `root` changes memory that `other` reads, or has changed before.

        Whoever loads does so before any store of the nest in program order, so it may read again in a late phase.
        """
        if isinstance(root, WritesMemory):
            return other in self._loading or (isinstance(other, WritesMemory) and place[other] < place[root])
        if not isinstance(root, Write):
            return False
        buffer = root.buffer
        if isinstance(other, Write) and other.buffer is buffer and place[other] < place[root]:
            return True
        return any(read.buffer is buffer and place[read] < place[root] for read in self._reads[other])

    def is_row_level(self, value: Value) -> bool:
        """Whether `value` has one element per iteration of the outer loops."""
        return not is_tile(value) or value.type.shape == self.outer

    def inner_extent(self, root: Op) -> int:
        """The number of elements of the inner loop for `root`; 1 when it needs none."""
        value = tile_operand(root)
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


def spill_phases(module: Op) -> None:
    """Keep what is EXPENSIVE and needed in two phases of a nest in a buffer of one row."""
    for op in list(module.walk()):
        if isinstance(op, NestOp):
            _spill(Nest(op))


def _spill(nest: Nest) -> None:
    if nest.mode != "rows" or len(set(nest.phases.values())) < 2:
        return
    spilled: dict[Value, Value] = {}
    for root in sorted(nest.roots, key=nest.phases.__getitem__):
        phase = nest.phases[root]
        early = {o for r in nest.roots if nest.phases[r] < phase for o in nest.closures[r]}
        _cut(root, root, nest, early, spilled, set())


def _cut(user: Op, root: Op, nest: Nest, early: set[Op], spilled: dict[Value, Value], seen: set[Op]) -> None:
    """Let what only `root`'s phase computes read values that an earlier phase has computed."""
    if user in seen:
        return
    seen.add(user)
    for index, value in enumerate(user.operands):
        op = value.op
        if op is None or op.block is not nest.body or isinstance(op, ROOTS) or nest.is_row_level(value):
            continue
        if value in spilled or (op in early and _fills_rows(value, nest) and _weight(value, nest) >= EXPENSIVE):
            if value not in spilled:
                spilled[value] = _row_buffer(value, nest)
            user.set_operand(index, spilled[value])
        else:
            _cut(op, root, nest, early, spilled, seen)


def _fills_rows(value: Value, nest: Nest) -> bool:
    shape = value.type.shape or ()
    return shape[:-1] == nest.outer


def _weight(value: Value, nest: Nest) -> int:
    """The cost of computing one element of `value` in the inner loop."""
    total, seen, stack = 0, set[Op](), [value]
    while stack:
        v = stack.pop()
        op = v.op
        if op is None or op in seen or op.block is not nest.body or nest.is_row_level(v) or isinstance(op, ROOTS):
            continue
        seen.add(op)
        total += cost(op)
        stack.extend(op.operands)
    return total


def _row_buffer(value: Value, nest: Nest) -> Value:
    """Write `value` to a buffer of one row where it is computed; returns a read of it."""
    op, block, tile = value.op, nest.op.block, tile_type(value)
    assert op is not None
    assert block is not None
    for user in value.uses:
        if isinstance(user, Write) and not user.row:
            read = Op.create("cpu.read", (user.buffer,), (value.type,), location=op.location)
            return nest.body.insert(read, user.next).result
    row = TensorType(tile.shape[-1:], tile.element)
    buffer = block.insert(Op.create("cpu.alloc", (), (buffer_type(row),), location=op.location), nest.op).result
    write = Op.create("cpu.write", (value, buffer), (), {"row": True}, location=op.location)
    nest.body.insert(write, op.next)
    read = Op.create("cpu.read", (buffer,), (value.type,), {"row": True}, location=op.location)
    return nest.body.insert(read, write.next).result
