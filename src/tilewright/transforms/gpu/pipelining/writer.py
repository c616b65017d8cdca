"""New ops in scheduled loops, and what loops carry.

at = Writer(load, schedule, slot)
view = at.view(buffer, index)          a `ttg.memdesc_index` in front of `load`, in `slot` of the schedule
"""

from __future__ import annotations

from tilewright.dialects.scf import For
from tilewright.ir.core import Op, Value, buffer_type
from tilewright.ir.types import MemDescType
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.pipelining.schedule import Schedule, Slot
from tilewright.transforms.op_builder import OpBuilder, OpT


class Writer(OpBuilder):
    """Puts ops in front of one that is there, and into the schedule of a loop.

    Attributes:
        slot: what the schedule says of the new ops; None: nothing.
    """

    def __init__(self, before: Op, schedule: Schedule | None = None, slot: Slot | None = None) -> None:
        super().__init__(before)
        self.schedule, self.slot = schedule, slot

    @classmethod
    def behind(cls, op: Op, schedule: Schedule | None = None, slot: Slot | None = None) -> Writer:
        """Writes behind `op` instead of in front of it."""
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
        """The number after `counter` among 0 … `count` - 1, and whether that began anew."""
        more = self.compute("arith.addi", counter, one)
        wraps = self.compare("sge", more, count)
        return self.compute("arith.select", wraps, zero, more), wraps


def carry(loop: For, initial: Value) -> Value:
    """Let `loop` carry one more value, as it is until `hand_on` says otherwise; returns the argument."""
    argument = add_carried(loop, initial)
    loop.body.terminator.set_operands([*loop.yielded, argument])
    return argument


def hand_on(loop: For, argument: Value, value: Value) -> None:
    """Let the next step of `loop` see `value` as `argument`."""
    loop.body.terminator.set_operand(argument.index - 1, value)
