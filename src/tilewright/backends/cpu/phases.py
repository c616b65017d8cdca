"""The phases of a nest: which of its inner loops each root runs in.

A result of a reduction exists only after the whole inner loop, so what needs it runs in the next phase:

    phase 0   loop: m = max(x)
    phase 1   loop: s += exp(x - m)
    phase 2   loop: store exp(x - m) / s

A store (or a write to a buffer) runs no earlier than anything that reads or changes that memory before it in program
order. What reads a buffer that the nest has written runs in a later phase than the write: a phase computes before it
stores.

`spill_phases` keeps a value that is EXPENSIVE and needed in two phases in a buffer of one row.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.backends.cpu.costs import CLOBBERS, EXPENSIVE, ROOTS, cost, is_tile, tile_operand
from tilewright.dialects.cpu import buffer_type
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType, with_shape

REDUCTIONS = {"tt.reduce"}


class Nest:
    """A finished cpu.nest, its roots, and what each is computed from."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.body = op.regions[0].block
        outer = op.attributes["outer"]
        self.outer: tuple[int, ...] = getattr(outer, "values", ())
        self.mode: str = getattr(op.attributes["mode"], "name", "rows")
        self.axis = int(getattr(op.attributes.get("axis"), "value", -1))
        self.roots = [o for o in self.body if o.name in ROOTS]
        self.closures = {root: self._closure(root) for root in self.roots}
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
            if op.name not in REDUCTIONS:
                stack.extend(op.operands)
        return seen

    def _phases(self) -> dict[Op, int]:
        phases: dict[Op, int] = {}
        place = {op: number for number, op in enumerate(self.body)}
        for root in self.roots:
            phase = max((phases[o] + 1 for o in self.closures[root] if o.name in REDUCTIONS), default=0)
            for read in (o for o in self.closures[root] if o.name == "cpu.read"):
                written = [w for w in phases if w.name == "cpu.write" and w.operands[1] is read.operands[0]]
                phase = max([phase, *(phases[w] + 1 for w in written if place[w] < place[read])])
            for earlier in phases:
                if self._overwrites(root, earlier):
                    phase = max(phase, phases[earlier])
            phases[root] = phase
        return phases

    def _overwrites(self, root: Op, earlier: Op) -> bool:
        """Does `root` change memory that `earlier` reads or changes?"""
        if root.name in CLOBBERS:
            return earlier.name in CLOBBERS or any(o.name == "tt.load" for o in self.closures[earlier])
        if root.name != "cpu.write":
            return False
        buffer = root.operands[1]
        if earlier.name == "cpu.write" and earlier.operands[1] is buffer:
            return True
        return any(o.name == "cpu.read" and o.operands[0] is buffer for o in self.closures[earlier])

    def is_row_level(self, value: Value) -> bool:
        """Has `value` one element per iteration of the outer loops?"""
        return not is_tile(value) or value.type.shape == self.outer

    def inner_extent(self, root: Op) -> int:
        """How many elements the inner loop for `root` has; 1 when it needs none."""
        value = tile_operand(root)
        if self.is_row_level(value):
            return 1
        shape = value.type.shape or (1,)
        return shape[self.axis]


STREAMING = 24
TRANSCENDENTAL = 12
"""Loops up to this cost per element, without an op of that cost, are bound by memory."""


def is_bound_by_memory(nest: Nest, ops: Iterable[Op]) -> bool:
    """Do `ops`, the body of a loop of `nest`, mostly move memory?"""
    costs = [cost(op) for op in ops for v in op.results if not nest.is_row_level(v)]
    return sum(costs) <= STREAMING and max(costs, default=0) < TRANSCENDENTAL


def spill_phases(module: Op) -> None:
    """Keep what is EXPENSIVE and needed in two phases of a nest in a buffer of one row."""
    for op in list(module.walk()):
        if op.name == "cpu.nest":
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
        if op is None or op.block is not nest.body or op.name in ROOTS or nest.is_row_level(value):
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
    """What computing one element of `value` costs in the inner loop."""
    total, seen, stack = 0, set[Op](), [value]
    while stack:
        v = stack.pop()
        op = v.op
        if op is None or op in seen or op.block is not nest.body or nest.is_row_level(v) or op.name in ROOTS:
            continue
        seen.add(op)
        total += cost(op)
        stack.extend(op.operands)
    return total


def _row_buffer(value: Value, nest: Nest) -> Value:
    """Write `value` to a buffer of one row where it is computed; returns a read of it."""
    op, block = value.op, nest.op.block
    assert op is not None
    assert block is not None
    assert isinstance(value.type, TensorType)
    for user in value.uses:
        if user.name == "cpu.write" and not user.attributes.get("row"):
            read = Op.create("cpu.read", (user.operands[1],), (value.type,), location=op.location)
            return nest.body.insert(read, user.next).result
    row = with_shape(value.type, value.type.shape[-1:])
    assert isinstance(row, TensorType)
    buffer = block.insert(Op.create("cpu.alloc", (), (buffer_type(row),), location=op.location), nest.op).result
    write = Op.create("cpu.write", (value, buffer), (), {"row": True}, location=op.location)
    nest.body.insert(write, op.next)
    read = Op.create("cpu.read", (buffer,), (value.type,), {"row": True}, location=op.location)
    return nest.body.insert(read, write.next).result
