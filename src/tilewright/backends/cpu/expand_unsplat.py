"""The only element of a tile as a scalar: a reduction over one element, which loop nests can execute.

%s = tt.unsplat %t : tensor<1x1xf32>        →        %r = tt.reshape %t : tensor<1xf32>
                                                     %s = tt.reduce(%r) {axis = 0} (the first of two)
"""

from __future__ import annotations

from tilewright.dialects.tt_shape import Unsplat
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Block, Op, Region
from tilewright.ir.types import TensorType, Type, i32


def expand_unsplat(module: Op) -> bool:
    """Replace every tt.unsplat; returns whether there is one."""
    found = module.ops_of(Unsplat)
    for op in found:
        assert op.block is not None
        element = op.result.type
        row = Op.create("tt.reshape", op.operands, (TensorType((1,), element),), location=op.location)
        regions = [_first_of_two(element)]
        attributes: dict[str, Attribute] = {"axis": Number(0, i32)}
        last = Op.create("tt.reduce", row.results, (element,), attributes, regions, location=op.location)
        op.block.insert(row, op)
        op.block.insert(last, op)
        op.replace(last.results)
    return bool(found)


def _first_of_two(element: Type) -> Region:
    block = Block((element, element))
    block.append(Op.create("tt.reduce.return", block.args[:1]))
    return Region([block])
