"""Nested selects: a choice whose result is chosen from once more, with one of its arms, is one choice.

    %n = arith.select %c, %a, %b      →    %k = arith.cmpi ult, %c, %m      m and not c
    %s = arith.select %m, %n, %a           %s = arith.select %k, %b, %a

    %n = arith.select %c, %a, %b      →    %k = arith.andi %m, %c
    %s = arith.select %m, %n, %b           %s = arith.select %k, %a, %b

The running best of a masked loop has this form. Of a large tile, the inner choices wait in registers for the outer
ones, and ptxas, which has 255, may give up: it spills everything, at 32 registers. Conditions take none. Small tiles
stay as they are: fewer conditions have to be computed.
"""

from __future__ import annotations

from tilewright.dialects.arith import Select
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.types import TensorType
from tilewright.layouts.conversion import to_linear_layout
from tilewright.transforms.gpu.relayout import layout_of
from tilewright.transforms.matching import has_one_use

LARGE = 128
"""Min number of elements of a tile in a thread for its choices to be merged: half of the registers."""


def nested_selects(module: Op) -> None:
    """Rewrite a module of TTGIR as above, in place."""
    for op in [op for op in module.walk() if isinstance(op, Select)]:
        if _is_large(op.result):
            _merge(op)


def _is_large(value: Value) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    return to_linear_layout(layout_of(value), value.type.shape).in_size("register") >= LARGE


def _merge(outer: Select) -> None:
    condition, kept = outer.condition, outer.other
    inner = defining(outer.chosen, Select)
    if inner is None or inner.block is not outer.block or not has_one_use(inner.result):
        return
    if inner.condition.type is not condition.type:
        return
    if kept is inner.other:
        both, other = _condition(outer, "arith.andi", condition, inner.condition), inner.chosen
    elif kept is inner.chosen:
        both, other = _condition(outer, "arith.cmpi", inner.condition, condition), inner.other
    else:
        return
    outer.set_operands((both, other, kept))
    inner.erase()


def _condition(before: Op, name: str, lhs: Value, rhs: Value) -> Value:
    """The value of both conditions together, combined by a new op in front of `before`."""
    attributes: dict[str, Attribute] = {"predicate": Keyword("ult")} if name == "arith.cmpi" else {}
    op = Op.create(name, (lhs, rhs), (lhs.type,), attributes, location=before.location)
    assert before.block is not None, "an op of a function is in a block"
    before.block.insert(op, before)
    return op.result
