"""The values of scalars in the next iteration of a loop, for prefetching what that iteration reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.nest.lane_values import Scalar
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import AddPtr
from tilewright.ir.core import Op, Value


class NextIteration:
    """Computes scalars ahead.

    Args:
        b: where the ops go.
        loop: the innermost loop around.
        written: the values that there are already.
        scalar: what a value is in this iteration.
    """

    def __init__(self, b: LoopBuilder, loop: For, written: Container[Value], scalar: Callable[[Value], Scalar]) -> None:
        self.b, self.loop, self.body = b, loop, loop.body
        self.written, self.scalar = written, scalar

    def value(self, value: Value) -> Scalar:
        """The value of a scalar in the next iteration; that of this iteration if unknown."""
        if value.owner is self.body:
            if value.index == 0:
                return self.b.add(value, self.loop.step)
            following = self.loop.yielded[value.index - 1]
            return self._early(following) if self._is_early(following) else value
        op = value.op
        if op is None or op.block is not self.body or not is_elementwise(op) or isinstance(op, AddPtr):
            return self.scalar(value)
        return self._again(op, map(self.value, op.operands))

    def knows(self, value: Value) -> bool:
        """Whether `value` is what a scalar is in the next iteration, where there is one."""
        if value.owner is self.body:
            return value.index == 0 or self._is_early(self.loop.yielded[value.index - 1])
        op = value.op
        if op is None or op.block is not self.body or op.definition.constant:
            return True
        return is_elementwise(op) and not isinstance(op, AddPtr) and all(map(self.knows, op.operands))

    def _again(self, op: Op, operands: Iterable[Scalar]) -> Value:
        """The result of a scalar op of other operands."""
        pairs = zip(operands, op.operands, strict=True)
        values = [self.b.constant(x, v.type) if isinstance(x, int) else x for x, v in pairs]
        return self.b.copy(op, values).result

    def _is_early(self, value: Value) -> bool:
        """Whether the ops by which the loop body computes `value` further down can be computed early."""
        op = value.op
        if value in self.written or op is None or op.block is not self.body or op.definition.constant:
            return True
        return is_elementwise(op) and all(map(self._is_early, op.operands))

    def _early(self, value: Value) -> Scalar:
        """The value of a scalar that the loop body computes further down, from what is there already."""
        op = value.op
        if value in self.written or op is None or op.block is not self.body or isinstance(op, Constant):
            return self.scalar(value)
        return self._again(op, map(self._early, op.operands))
