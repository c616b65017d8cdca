"""Loops that leave the way to the caches idle ask for rows that the next run of the nest loads.

    scf.parallel %i = … {                            scf.parallel %i = … {
      %x = vector.load %p[%i]                  →       %x = vector.load %p[%i]
                                                       vector.prefetch %p[%i + %stride]
    } {cpu.phase = 1, cpu.runs = program}            } …

Where %p is `base + program_id * stride`, the row of the next program is `stride` elements further. A loop that reads a
row for the second time, from L1, has time for the next one. A tile that goes from memory to memory row by row, past the
caches, is asked for while the one before is computed: its rows are often a page apart, so no processor guesses them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.backends.cpu.affine import FARTHEST
from tilewright.backends.cpu.loop_builder import offset_of
from tilewright.backends.cpu.loop_facts import (
    PHASE,
    RUNS,
    TILE,
    InvariantBuilder,
    first_address,
    lanes_of_row,
    number_in,
)
from tilewright.backends.cpu.loop_structure import Operand
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.arith import Binary
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.tt_memory import AddPtr, pointee_type
from tilewright.dialects.tt_program import ProgramId
from tilewright.dialects.vector import Load, Store
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OPS, Effect
from tilewright.ir.types import i64
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import is_inside

FROM_NEAR = 3
"""The locality of a prefetch into L1."""

FROM_MEMORY = 2
"""The locality of a prefetch into L2: rows of a tile are often pages apart, and L1 keeps few such lines."""


def prefetch_rows(module: Op, target: Target) -> bool:
    """Ask in the parallel loops of `module` for what the next run loads; returns whether any does."""
    found = False
    for function in functions_of(module):
        loops = function.ops_of(Parallel)
        builder, loaded = InvariantBuilder(function), set[Value]()
        for loop in loops:
            loads = [op for op in loop.body if isinstance(op, Load)]
            rows = {op: row for op in loads if (row := first_address(loop, op)) is not None}
            if RUNS in loop.attributes:
                builder.in_front_of(loop)
                found |= _Rows(builder, loop, target).ask(rows, loaded)
            loaded.update(rows.values())
    return found


class _Rows:
    """The rows that one loop loads."""

    def __init__(self, builder: InvariantBuilder, loop: Parallel, target: Target) -> None:
        self.b, self.loop, self.costs = builder, loop, target.costs
        self.turning, self.fastest = builder.turning(), builder.fastest()
        self.steps: dict[Value, Operand | None] = {}
        self.streams = any(isinstance(op, Store) and op.nontemporal for op in loop.body)
        self.is_tile = self.streams and TILE in loop.attributes

    def ask(self, rows: dict[Load, Value], loaded: set[Value]) -> bool:
        """Ask for those that move from run to run, if there is time; `loaded` are rows of earlier loops."""
        asked = False
        for op, row in rows.items():
            if self.is_tile or (self._rereads() and row in loaded):
                further = self._further(op, row)
                if further is not None:
                    self._prefetch(op, further)
                    asked = True
        return asked

    def _rereads(self) -> bool:
        """Whether the loop, for the only row of its nest, reads for the second time."""
        return number_in(self.loop, PHASE) == 1 and self._row_loop() is None

    def _row_loop(self) -> Op | None:
        """The innermost loop around, if it is one of the nest's."""
        site = self.loop.parent
        while site is not None and not isinstance(site, For):
            site = site.parent
        return None if site is self.turning else site

    def _further(self, op: Load, row: Value) -> Operand | None:
        """How many bytes further the next run loads; None where that is the same row, or not known, or too much."""
        length, b = lanes_of_row(self.loop) * op.result.type.scalar.bits // 8, self.b
        around = self._row_loop() or self.turning
        is_one_of_many = around is None or is_inside(row, around)
        longest = self.costs.asked_tile_row if self.is_tile else self.costs.asked_row
        if length > longest or (self.is_tile and not is_one_of_many):
            return None
        step = self._step(row, FARTHEST)
        if step is None or step == 0 or self.is_tile:
            return step or None
        near = b.compare("ule", b.mul(b.runs(), length), self.costs.asks_ahead)
        return b.select(near, b.number(step), 0)

    def _prefetch(self, op: Load, further: Operand) -> None:
        operands, locality = (op.base, self.b.number(further)), Number(FROM_MEMORY if self.streams else FROM_NEAR, i64)
        assert op.block is not None, "it stands in a loop"
        op.block.insert(Op(OPS["vector.prefetch"], operands, (), {"locality": locality}, (), (), op.location), op.next)

    # ------------------------------------------------------------------ how far addresses move from run to run

    def _step(self, value: Value, ops: int) -> Operand | None:
        """The growth of an integer, or of an address in bytes, from one run to the next; None: unknown.

        It is followed through so many `ops`.
        """
        if value not in self.steps:
            self.steps[value] = self._new_step(value, ops) if ops else None
        return self.steps[value]

    def _new_step(self, value: Value, ops: int) -> Operand | None:
        op = value.op
        if self.turning is not None and value is self.turning.induction_variable:
            return offset_of(self.b.extend(self.turning.step, i64))
        if op is None or op.definition.constant:
            return 0
        if isinstance(op, ProgramId) and op.name == "tt.get_program_id":
            return int(op.axis == self.fastest)
        steps = [step for step in (self._step(v, ops - 1) for v in op.operands) if step is not None]
        if len(steps) < len(op.operands) or op.definition.effect is not Effect.NONE:
            return None
        if all(step == 0 for step in steps):
            return 0
        rule = _RULES.get(op.name)
        return rule(self, op, steps) if rule is not None else None

    def same(self, op: Op, steps: list[Operand]) -> Operand:
        """That of the only operand."""
        return steps[0]

    def sum(self, op: Op, steps: list[Operand]) -> Operand:
        """a + b"""
        return offset_of(self.b.add(*map(self.b.number, steps)))

    def product(self, op: Binary, steps: list[Operand]) -> Operand | None:
        """a * b, of which one does not move."""
        if 0 not in steps:
            return None
        moving, factor = (steps[0], op.rhs) if steps[1] == 0 else (steps[1], op.lhs)
        if is_inside(factor, self.turning or self.loop) or self._varies(factor):
            return None
        return offset_of(self.b.mul(self.b.number(moving), self.b.extend(factor, i64)))

    def _varies(self, factor: Value) -> bool:
        around = self._row_loop()
        return around is not None and is_inside(factor, around)

    def quotient(self, op: Op, steps: list[Operand]) -> Operand | None:
        """Neighbours nearly always have the same quotient."""
        return 0 if steps[1] == 0 else None

    def remainder(self, op: Op, steps: list[Operand]) -> Operand | None:
        """a % n, where neighbours are nearly always in one row."""
        return steps[0] if steps[1] == 0 else None

    def address(self, op: AddPtr, steps: list[Operand]) -> Operand:
        """An address and elements."""
        size = max(8, pointee_type(op.result.type).bits) // 8
        return offset_of(self.b.add(self.b.number(steps[0]), self.b.mul(self.b.number(steps[1]), size)))


_RULES: dict[str, Callable[[_Rows, Any, list[Operand]], Operand | None]] = {
    "arith.addi": _Rows.sum,
    "arith.divsi": _Rows.quotient,
    "arith.divui": _Rows.quotient,
    "arith.extsi": _Rows.same,
    "arith.extui": _Rows.same,
    "arith.muli": _Rows.product,
    "arith.remsi": _Rows.remainder,
    "arith.remui": _Rows.remainder,
    "arith.trunci": _Rows.same,
    "tt.addptr": _Rows.address,
}
