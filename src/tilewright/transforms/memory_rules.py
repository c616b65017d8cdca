"""Canonical forms of pointers and memory access: no zero offsets, no masks that are known.

tt.load %p, %true, %other          ->  tt.load %p
tt.load %p, %false, %other         ->  %other
tt.addptr %p, %c0                  ->  %p
"""

from __future__ import annotations

from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, defining_op
from tilewright.ir.rewriter import Fold, Rewriter, Rule
from tilewright.ir.types import PointerType, i64
from tilewright.transforms.matching import constant_of, integer_of

# --- folds --------------------------------------------------------------------------------------------------------


def fold_addptr(op: Op) -> Value | None:
    """p + 0  ->  p"""
    pointer, offset = op.operands
    return pointer if constant_of(offset) == 0 else None


def fold_advance(op: Op) -> Value | None:
    """advance(p, 0, 0)  ->  p"""
    pointer, *offsets = op.operands
    return pointer if all(constant_of(offset) == 0 for offset in offsets) else None


def fold_masked_load(op: Op) -> Value | None:
    """load(p, false, other)  ->  other"""
    if len(op.operands) != 3 or constant_of(op.operands[1]) != 0 or op.attributes.get("isVolatile"):
        return None
    return op.operands[2]


def fold_ptr_to_int(op: Op) -> Value | Number | None:
    """ptr_to_int(int_to_ptr(x : i64)) : i64  ->  x"""
    inner = defining_op(op.operands[0], "tt.int_to_ptr")
    if inner is None or op.result.type.scalar is not i64 or inner.operands[0].type is not op.result.type:
        return None
    return inner.operands[0]


def fold_bitcast(op: Op) -> Value | None:
    """bitcast(x) to x's own type  ->  x, unless it says something of x;   bitcast(bitcast(x)) to x's type  ->  x"""
    x = op.operands[0]
    if x.type is op.result.type:
        return None if op.attributes else x
    inner = defining_op(x, "tt.bitcast")
    return inner.operands[0] if inner is not None and inner.operands[0].type is op.result.type else None


FOLDS: dict[str, Fold] = {
    "tt.addptr": fold_addptr,
    "tt.advance": fold_advance,
    "tt.load": fold_masked_load,
    "tt.ptr_to_int": fold_ptr_to_int,
    "tt.bitcast": fold_bitcast,
}

# --- rules --------------------------------------------------------------------------------------------------------


def unmasked_load(op: Op, rewriter: Rewriter) -> bool:
    """load(p, true, other)  ->  load(p)"""
    if len(op.operands) < 2 or constant_of(op.operands[1]) != 1:
        return False
    rewriter.set_operands(op, op.operands[:1])
    return True


def known_mask_of_store(op: Op, rewriter: Rewriter) -> bool:
    """store(p, x, true)  ->  store(p, x);   store(p, x, false)  ->  nothing"""
    mask = constant_of(op.operands[2]) if len(op.operands) == 3 else None
    if mask is None:
        return False
    if mask:
        rewriter.set_operands(op, op.operands[:2])
    else:
        rewriter.erase(op)
    return True


def unreached_atomic(op: Op, rewriter: Rewriter) -> bool:
    """atomic_rmw(p, x, false), result unused  ->  nothing"""
    if len(op.operands) != 3 or constant_of(op.operands[2]) != 0 or op.result.uses:
        return False
    rewriter.erase(op)
    return True


def held_assertion(op: Op, rewriter: Rewriter) -> bool:
    """assert(true), assume(true)  ->  nothing"""
    if constant_of(op.operands[0]) != 1:
        return False
    rewriter.erase(op)
    return True


def int_to_ptr_of_ptr_to_int(op: Op, rewriter: Rewriter) -> bool:
    """int_to_ptr(ptr_to_int(p) : i64)  ->  p, or bitcast(p) if p points at something else"""
    inner = defining_op(op.operands[0], "tt.ptr_to_int")
    if inner is None or inner.result.type.scalar is not i64:
        return False
    pointer = inner.operands[0]
    if pointer.type is not op.result.type:
        pointer = rewriter.create(op, "tt.bitcast", (pointer,), (op.result.type,)).result
    rewriter.replace(op, (pointer,))
    return True


def int_to_ptr_of_sum(op: Op, rewriter: Rewriter) -> bool:
    """int_to_ptr(x + c)  ->  int_to_ptr(x) + c / size, if c is a multiple of the size of what is pointed at"""
    sum, type = defining_op(op.operands[0], "arith.addi"), op.result.type.scalar
    bytes_added = None if sum is None else integer_of(sum.operands[1])
    if sum is None or bytes_added is None or not isinstance(type, PointerType):
        return False
    size = max(1, type.pointee.bits // 8)
    if bytes_added % size:
        return False
    base = rewriter.create(op, "tt.int_to_ptr", sum.operands[:1], (op.result.type,))
    offset = rewriter.constant(bytes_added // size, sum.operands[1].type)
    rewriter.replace(op, rewriter.create(op, "tt.addptr", (base.result, offset), (op.result.type,)).results)
    return True


RULES: dict[str, tuple[Rule, ...]] = {
    "tt.int_to_ptr": (int_to_ptr_of_ptr_to_int, int_to_ptr_of_sum),
    "tt.load": (unmasked_load,),
    "tt.store": (known_mask_of_store,),
    "tt.atomic_rmw": (unreached_atomic,),
    "tt.assert": (held_assertion,),
    "llvm.intr.assume": (held_assertion,),
}
