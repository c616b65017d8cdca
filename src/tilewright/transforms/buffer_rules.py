"""Canonical forms of buffers and their views: chains become one op, and no tile goes to memory twice.

ttg.local_alloc (ttg.local_load %buffer)            ->  %buffer, if nobody can write to either
ttg.memdesc_subslice (ttg.memdesc_subslice %b)      ->  ttg.memdesc_subslice %b, offsets added
ttg.memdesc_trans (ttg.memdesc_trans %b)            ->  ttg.memdesc_trans %b, orders composed
"""

from __future__ import annotations

from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Op, Value, defining_op
from tilewright.ir.rewriter import Fold, Rewriter, Rule
from tilewright.ir.types import MemDescType, i32


def fold_local_alloc(op: Op) -> Value | None:
    """local_alloc(local_load(m))  ->  m, if m may not be written to, and has the type that is wanted"""
    type = op.result.type
    load = defining_op(op.operands[0], "ttg.local_load") if op.operands else None
    if load is None or not isinstance(type, MemDescType) or type.mutable:
        return None
    return load.operands[0] if load.operands[0].type is type else None


def fold_reinterpret(op: Op) -> Value | None:
    """memdesc_reinterpret(m) to m's own type  ->  m"""
    return op.operands[0] if op.operands[0].type is op.result.type else None


def fold_trans(op: Op) -> Value | None:
    """memdesc_trans(m) in the old order  ->  m"""
    order = _numbers(op.attributes["order"])
    return op.operands[0] if order == tuple(range(len(order))) else None


def _numbers(attribute: Attribute) -> tuple[int, ...]:
    assert isinstance(attribute, DenseArray), "an array of integers"
    return attribute.values


def trans_of_trans(op: Op, rewriter: Rewriter) -> bool:
    """memdesc_trans(memdesc_trans(m, p), q)  ->  memdesc_trans(m, p after q)"""
    inner = defining_op(op.operands[0], "ttg.memdesc_trans")
    if inner is None:
        return False
    first, second = _numbers(inner.attributes["order"]), _numbers(op.attributes["order"])
    op.attributes["order"] = DenseArray(i32, tuple(first[axis] for axis in second))
    rewriter.set_operands(op, inner.operands)
    return True


def subslice_of_subslice(op: Op, rewriter: Rewriter) -> bool:
    """memdesc_subslice(memdesc_subslice(m, a), b)  ->  memdesc_subslice(m, a + b)"""
    inner = defining_op(op.operands[0], "ttg.memdesc_subslice")
    if inner is None:
        return False
    first, second = _numbers(inner.attributes["offsets"]), _numbers(op.attributes["offsets"])
    op.attributes["offsets"] = DenseArray(i32, tuple(map(sum, zip(first, second, strict=True))))
    rewriter.set_operands(op, inner.operands)
    return True


FOLDS: dict[str, Fold] = {
    "ttg.local_alloc": fold_local_alloc,
    "ttg.memdesc_reinterpret": fold_reinterpret,
    "ttg.memdesc_trans": fold_trans,
}
RULES: dict[str, tuple[Rule, ...]] = {
    "ttg.memdesc_trans": (trans_of_trans,),
    "ttg.memdesc_subslice": (subslice_of_subslice,),
}
