"""Creation of ops at an insertion point: before an op, after one, or at the end of a block.

at = OpBuilder(loop)
last = at.compute("arith.subi", loop.high, loop.step)
at.op("tt.load", [pointer, [mask], []], (type,))        lists mark the operands that may be absent
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

from tilewright.ir.attributes import Attribute, Keyword, Location, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.declare import OPS
from tilewright.ir.operands import segment_attribute
from tilewright.ir.types import TensorType, Type, i1, i32, with_element

OpT = TypeVar("OpT", bound=Op)


class OpBuilder:
    """Makes ops before one that is there.

    Attributes:
        block: where ops go.
        before: the op that they stand before; None: at the end of `block`.
        location: of new ops.
    """

    def __init__(self, before: Op) -> None:
        assert before.block is not None, f"{before.name} is in no block"
        self.block: Block = before.block
        self.before: Op | None = before
        self.location: Location = before.location

    @classmethod
    def after(cls, op: Op) -> Self:
        """Makes ops behind `op` instead of before it."""
        builder = cls(op)
        builder.before = op.next
        return builder

    def insert(self, op: OpT) -> OpT:
        """Put an op that is in no block to this place."""
        self.block.insert(op, self.before)
        return op

    def op(
        self,
        name: str,
        operands: Sequence[Value | Sequence[Value]] = (),
        types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Op:
        """A new op. A list among the operands has those that one name stands for; then all others are one each.

        Args:
            name: a declared kind of ops.
            types: the type of each result.
            regions: the regions, which the op takes over.
        """
        definition, made = OPS[name], dict(attributes or {})
        groups = [[operand] if isinstance(operand, Value) else operand for operand in operands]
        if not all(isinstance(operand, Value) for operand in operands):
            made.update(segment_attribute(definition.operand_names, [len(group) for group in groups]))
        values = [value for group in groups for value in group]
        return self.insert(Op(definition, values, types, made, regions, location=self.location))

    def emit(
        self, name: str, operands: Sequence[Value], type: Type, attributes: dict[str, Attribute] | None = None
    ) -> Value:
        """The only result of a new op."""
        op = Op(OPS[name], operands, (type,), dict(attributes or {}), location=self.location)
        return self.insert(op).result

    def compute(self, name: str, *operands: Value) -> Value:
        """The result of arithmetic, which has the type of the last operand."""
        *_, last = operands
        return self.emit(name, operands, last.type)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """A comparison of integers."""
        return self.emit("arith.cmpi", (a, b), with_element(a.type, i1), {"predicate": Keyword(predicate)})

    def constant(self, value: int | float, type: Type) -> Value:
        """A constant, or a tile of equal ones, at this place."""
        return self.emit("arith.constant", (), type, {"value": Number(value, type)})

    def literal(self, value: int, type: Type) -> Value:
        """A number, known wherever the op is executed: it stands at the start of what sees no values from outside."""
        block: Block | None = self.block
        region = self.block.region
        op = None if region is None else region.op
        while op is not None and not op.definition.isolated:
            block, op = op.block, op.parent
        assert block is not None, "every op is inside a function"
        first = block.region.blocks[0] if block.region is not None else block
        return ConstantPool(first).value(value, type)

    def reduce(self, tile: Value, combine: str, axis: int) -> Value:
        """The reduction of a tile along an axis by the op `combine`."""
        shape, element = tile_type(tile).shape, tile.type.scalar
        rest = shape[:axis] + shape[axis + 1 :]
        type = TensorType(rest, element) if rest else element
        regions = [combine_region(combine, element)]
        return self.op("tt.reduce", [tile], [type], {"axis": Number(axis, i32)}, regions).result

    def cast(self, name: str, value: Value, element: Type) -> Value:
        """`value` as elements of another type."""
        return self.emit(name, (value,), with_element(value.type, element))


def combine_region(name: str, element: Type) -> Region:
    """The combine function of a reduction that is the op `name` alone."""
    block = Block((element, element))
    combined = block.append(Op.create(name, block.args, (element,)))
    block.append(Op.create("tt.reduce.return", combined.results))
    return Region([block])
