"""Giving tiles other layouts: what passes on TTGIR have in common.

convert_operand(op, 0, layout)      %c = ttg.convert_layout %a : … -> tensor<64xf32, layout>
                                    op %c, …
"""

from __future__ import annotations

from typing import TypeVar

from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import TensorType, Type
from tilewright.layouts.encodings import Distributed, Encoding, encoding

AnyLayout = TypeVar("AnyLayout", bound=Encoding)


def layout_of_type(type: Type) -> Encoding:
    """The layout of tiles of `type`, which must have one."""
    encoded = type.encoding if isinstance(type, TensorType) else None
    assert encoded, f"{type} has no layout"
    return encoding(encoded)


def layout_of(value: Value) -> Encoding:
    """The layout of the tile `value`, which must have one."""
    return layout_of_type(value.type)


def layout_as(value: Value, kind: type[AnyLayout]) -> AnyLayout:
    """The layout of the tile `value`, which is of this class."""
    layout = layout_of(value)
    assert isinstance(layout, kind), f"{layout} is no {kind.__name__}"
    return layout


def distributed_of(value: Value) -> Distributed:
    """The layout of the tile `value`, whose elements are in registers."""
    return layout_as(value, Distributed)


def with_layout(type: Type, layout: Encoding) -> TensorType:
    """The tile `type` with another layout."""
    assert isinstance(type, TensorType), f"{type} is no tile"
    return TensorType(type.shape, type.element, layout.text)


def convert_operand(op: Op, index: int, layout: Encoding) -> None:
    """Let `op` take its operand `index` with `layout`, through a conversion even if that changes nothing."""
    value = op.operands[index]
    converted = Op(OPS["ttg.convert_layout"], (value,), (with_layout(value.type, layout),), location=op.location)
    assert op.block is not None, f"{op.name} is in no block"
    op.block.insert(converted, op)
    op.set_operand(index, converted.result)


def convert_result(value: Value, wanted: Type) -> None:
    """Let the users of the result `value`, which has its final type, see one of type `wanted`."""
    if value.type is wanted or not value.uses:
        return
    op = value.owner
    assert isinstance(op, Op), "a result"
    assert op.block is not None, f"{op.name} is in no block"
    converted = Op(OPS["ttg.convert_layout"], (), (wanted,), location=op.location)
    op.block.insert(converted, op.next)
    value.replace_by(converted.result)
    converted.set_operands([value])
