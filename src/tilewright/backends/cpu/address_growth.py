"""The increment of integers and addresses from one iteration of a loop, or one program, to the next.

for %start = 0 to %rows step 32:   address(%x + (%start + %r) * %columns)   →   128 * %columns bytes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.backends.cpu.affine import FARTHEST
from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of
from tilewright.backends.cpu.loop_structure import Operand
from tilewright.dialects.arith import Binary
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.tt_memory import AddPtr, pointee_type
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect
from tilewright.ir.types import i64
from tilewright.transforms.matching import is_inside


class Growth:
    """The growth of values from run to run.

    Attributes:
        builder: where growths that are not known now are computed.
        repeating_loop: the loop each iteration of which is a run; None if each program is.
        fastest: the axis of the grid along which programs follow each other, if each is a run.
        within: no factor and no step may be computed inside of it: it may be another one in the next run.
        keeps_memory: what lies in one place is taken to be the same in the next run.
    """

    def __init__(
        self,
        builder: LoopBuilder,
        repeating_loop: For | Parallel | None,
        fastest: str,
        within: Op,
        *,
        keeps_memory: bool = False,
    ) -> None:
        self.b, self.repeating_loop, self.fastest, self.within = builder, repeating_loop, fastest, within
        self.keeps_memory = keeps_memory
        self._found: dict[Value, Operand | None] = {}

    def of(self, value: Value, ops: int = FARTHEST) -> Operand | None:
        """The growth of an integer, or of an address in bytes; None: unknown. It is followed through so many `ops`."""
        if value not in self._found:
            self._found[value] = self._new(value, ops) if ops else None
        return self._found[value]

    def _new(self, value: Value, ops: int) -> Operand | None:
        op = value.op
        if self.repeating_loop is not None and value is self.repeating_loop.induction_variable:
            step = self.repeating_loop.step
            return None if is_inside(step, self.within) else offset_of(self.b.extend(step, i64))
        if op is None or op.definition.constant:
            return 0
        if isinstance(op, ProgramId) and op.name == "tt.get_program_id":
            return int(op.axis == self.fastest)
        steps = [step for step in (self.of(v, ops - 1) for v in op.operands) if step is not None]
        effects = (Effect.NONE, Effect.READ) if self.keeps_memory else (Effect.NONE,)
        if len(steps) < len(op.operands) or op.definition.effect not in effects:
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
        if is_inside(factor, self.within):
            return None
        return offset_of(self.b.mul(self.b.number(moving), self.b.extend(factor, i64)))

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


_RULES: dict[str, Callable[[Growth, Any, list[Operand]], Operand | None]] = {
    "arith.addi": Growth.sum,
    "arith.divsi": Growth.quotient,
    "arith.divui": Growth.quotient,
    "arith.extsi": Growth.same,
    "arith.extui": Growth.same,
    "arith.muli": Growth.product,
    "arith.remsi": Growth.remainder,
    "arith.remui": Growth.remainder,
    "arith.trunci": Growth.same,
    "tt.addptr": Growth.address,
}
