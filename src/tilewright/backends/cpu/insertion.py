"""New ops in front of an existing one, for passes that replace an op by several.

total = op_before(op, "tt.reduce", [ones], result, {"axis": Number(0, i32)}, [combine_region("arith.addi", i32)])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import Type


def insert(op: Op, before: Op) -> Op:
    """Put `op` in front of an op that is part of a block."""
    assert before.block is not None
    return before.block.insert(op, before)


def op_before(
    before: Op,
    name: str,
    operands: Sequence[Value],
    type: Type,
    attributes: Mapping[str, Attribute] | None = None,
    regions: Sequence[Region] = (),
) -> Value:
    """The result of a new op in front of `before`, whose location it gets."""
    op = Op.create(name, operands, (type,), dict(attributes or {}), regions, location=before.location)
    return insert(op, before).result


def combine_region(name: str, element: Type) -> Region:
    """The combine function of a reduction that is the op `name` alone."""
    block = Block((element, element))
    combined = block.append(Op.create(name, block.args, (element,)))
    block.append(Op.create("tt.reduce.return", combined.results))
    return Region([block])
