"""Canonical forms of buffers and their views: chains become one op, and no tile goes to memory twice.

ttg.local_alloc (ttg.local_load %buffer)            ->  %buffer, if nobody can write to either
ttg.memdesc_subslice (ttg.memdesc_subslice %b)      ->  ttg.memdesc_subslice %b, offsets added
ttg.memdesc_trans (ttg.memdesc_trans %b)            ->  ttg.memdesc_trans %b, orders composed
"""

from __future__ import annotations

from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, MemDescReinterpret, MemDescSubslice, MemDescTrans
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Value, defining
from tilewright.ir.rewriter import Fold, Rewriter, Rule
from tilewright.ir.types import MemDescType, i32


def fold_local_alloc(op: LocalAlloc) -> Value | None:
    """local_alloc(local_load(m))  ->  m, if m may not be written to, and has the type that is wanted"""
    type = op.result.type
    load = None if op.source is None else defining(op.source, LocalLoad)
    if load is None or not isinstance(type, MemDescType) or type.mutable:
        return None
    return load.buffer if load.buffer.type is type else None


def fold_reinterpret(op: MemDescReinterpret) -> Value | None:
    """memdesc_reinterpret(m) to m's own type  ->  m"""
    return op.source if op.source.type is op.result.type else None


def fold_trans(op: MemDescTrans) -> Value | None:
    """memdesc_trans(m) in the old order  ->  m"""
    return op.source if op.order == tuple(range(len(op.order))) else None


def trans_of_trans(op: MemDescTrans, rewriter: Rewriter) -> bool:
    """memdesc_trans(memdesc_trans(m, p), q)  ->  memdesc_trans(m, p after q)"""
    inner = defining(op.source, MemDescTrans)
    if inner is None:
        return False
    op.attributes["order"] = DenseArray(i32, tuple(inner.order[axis] for axis in op.order))
    rewriter.set_operands(op, inner.operands)
    return True


def subslice_of_subslice(op: MemDescSubslice, rewriter: Rewriter) -> bool:
    """memdesc_subslice(memdesc_subslice(m, a), b)  ->  memdesc_subslice(m, a + b)"""
    inner = defining(op.source, MemDescSubslice)
    if inner is None:
        return False
    op.attributes["offsets"] = DenseArray(i32, tuple(map(sum, zip(inner.offsets, op.offsets, strict=True))))
    rewriter.set_operands(op, inner.operands)
    return True


FOLDS: dict[str, tuple[Fold, ...]] = {
    "ttg.local_alloc": (fold_local_alloc,),
    "ttg.memdesc_reinterpret": (fold_reinterpret,),
    "ttg.memdesc_trans": (fold_trans,),
}
RULES: dict[str, tuple[Rule, ...]] = {
    "ttg.memdesc_trans": (trans_of_trans,),
    "ttg.memdesc_subslice": (subslice_of_subslice,),
}
