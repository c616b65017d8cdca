"""New ops in scheduled loops, and what loops carry.

at = Writer(load, schedule, slot)
view = at.view(buffer, index)          a `ttg.memdesc_index` in front of `load`, in `slot` of the schedule
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.scf import For
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Block, Op, Region, Value, buffer_type
from tilewright.ir.declare import OPS
from tilewright.ir.operands import segment_attribute
from tilewright.ir.types import MemDescType, Type, i1
from tilewright.transforms.gpu.pipelining.schedule import Schedule, Slot


class Writer:
    """Puts ops in front of one that is there.

    Attributes:
        before: that op; None: at the end of `block`.
        slot: what the schedule says of the new ops; None: nothing.
    """

    def __init__(self, before: Op, schedule: Schedule | None = None, slot: Slot | None = None) -> None:
        assert before.block is not None, f"{before.name} is in no block"
        self.block: Block = before.block
        self.before: Op | None = before
        self.location = before.location
        self.schedule, self.slot = schedule, slot

    @classmethod
    def behind(cls, op: Op, schedule: Schedule | None = None, slot: Slot | None = None) -> Writer:
        """Writes behind `op` instead of in front of it."""
        writer = cls(op, schedule, slot)
        writer.before = op.next
        return writer

    def op(
        self,
        name: str,
        groups: Sequence[Sequence[Value]] = (),
        types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Op:
        """A new op, whose operands are given by groups as its kind names them."""
        definition = OPS[name]
        counted = segment_attribute(definition.operand_names, [len(group) for group in groups])
        operands = [value for group in groups for value in group]
        made = Op(definition, operands, types, {**(attributes or {}), **counted}, regions, location=self.location)
        if self.schedule is not None and self.slot is not None:
            self.schedule.insert(made, self.slot)
        return self.block.insert(made, self.before)

    def compute(self, name: str, *operands: Value) -> Value:
        """The result of arithmetic on operands of one type."""
        return self.op(name, [operands], (operands[-1].type,)).result

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """An integer comparison."""
        return self.op("arith.cmpi", [(a, b)], (i1,), {"predicate": Keyword(predicate)}).result

    def number(self, value: int, type: Type) -> Value:
        """A constant."""
        return self.op("arith.constant", (), (type,), {"value": Number(value, type)}).result

    def view(self, buffers: Value, index: Value) -> Value:
        """One of several buffers."""
        type = buffer_type(buffers)
        view = MemDescType(type.shape[1:], type.element, type.encoding, type.space, type.mutable)
        return self.op("ttg.memdesc_index", [[buffers], [index]], (view,)).result

    def next_of(self, counter: Value, count: Value, zero: Value, one: Value) -> tuple[Value, Value]:
        """The number after `counter` among 0 … `count` - 1, and whether that began anew."""
        more = self.compute("arith.addi", counter, one)
        wraps = self.compare("sge", more, count)
        return self.compute("arith.select", wraps, zero, more), wraps


def carry(loop: For, initial: Value) -> Value:
    """Let `loop` carry one more value, as it is until `hand_on` says otherwise; returns the argument."""
    block = loop.body
    argument = block.add_argument(initial.type)
    loop.set_operands([*loop.operands, initial])
    loop.results.append(Value(initial.type, loop, len(loop.results)))
    block.terminator.set_operands([*block.terminator.operands, argument])
    return argument


def hand_on(loop: For, argument: Value, value: Value) -> None:
    """Let the next step of `loop` see `value` as `argument`."""
    loop.body.terminator.set_operand(argument.index - 1, value)
