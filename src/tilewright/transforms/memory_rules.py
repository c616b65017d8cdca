"""Canonical forms of pointers, memory access and buffers.

Zero offsets and known masks are removed, chains of views become one op, and no tile is stored to memory twice.

ttg.local_alloc (ttg.local_load %buffer)            ->  %buffer, if neither can be written to
ttg.memdesc_subslice (ttg.memdesc_subslice %b)      ->  ttg.memdesc_subslice %b, offsets added
"""

from __future__ import annotations

from tilewright.dialects.builtin import Assume
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import Advance, IntToPtr, Load, PtrToInt, Store
from tilewright.dialects.tt_program import Assert
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, MemDescReinterpret, MemDescSubslice, MemDescTrans
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.rewriter import Fold, Rewriter, Rule
from tilewright.ir.types import MemDescType, PointerType, i32, i64
from tilewright.transforms.equations import Equation, by_op
from tilewright.transforms.matching import binary_of, constant_of, integer_of, is_always

# --- folds --------------------------------------------------------------------------------------------------------


def advanced_by_zero(op: Advance) -> Value | None:
    """advance(p, 0, 0) → p"""
    return op.pointer if all(constant_of(offset) == 0 for offset in op.offsets) else None


def load_of_nothing(op: Load) -> Value | None:
    """load(p, false, other) → other"""
    other = op.other
    return other if other is not None and is_always(op.mask, 0) and not op.is_volatile else None


def is_of_64_bits(op: Op, x: Value) -> bool:
    """has the type of the result, which is i64"""
    return x.type is op.result.type and x.type.scalar is i64


def cast_of_pointer(op: Bitcast) -> Value | None:
    """bitcast(x) to x's own type → x, unless it says something of x;   bitcast(bitcast(x)) to x's type → x"""
    x = op.operand
    if x.type is op.result.type:
        return None if op.attributes else x
    inner = defining(x, Bitcast)
    return inner.operand if inner is not None and inner.operand.type is op.result.type else None


IDENTITIES = (
    Equation("address_plus_zero", "addptr(p, 0) → p"),
    Equation.of(advanced_by_zero, "tt.advance"),
    Equation.of(load_of_nothing, "tt.load", given="it is not volatile"),
    Equation("address_of_number", "ptr_to_int(int_to_ptr(x)) → x", given=is_of_64_bits),
    Equation.of(cast_of_pointer, "tt.bitcast"),
)

# --- rules --------------------------------------------------------------------------------------------------------


def unmasked_load(op: Load, rewriter: Rewriter) -> bool:
    """load(p, true, other) → load(p)"""
    if not is_always(op.mask, 1):
        return False
    rewriter.set_operands(op, [op.pointer])
    return True


def known_mask_of_store(op: Store, rewriter: Rewriter) -> bool:
    """store(p, x, true) → store(p, x);   store(p, x, false) → nothing"""
    mask = None if op.mask is None else constant_of(op.mask)
    if mask is None:
        return False
    if mask:
        rewriter.set_operands(op, [op.pointer, op.value])
    else:
        rewriter.erase(op)
    return True


def unreached_atomic(op: AtomicRmw, rewriter: Rewriter) -> bool:
    """atomic_rmw(p, x, false) → nothing"""
    if not is_always(op.mask, 0) or op.result.uses:
        return False
    rewriter.erase(op)
    return True


def held_assertion(op: Assert | Assume, rewriter: Rewriter) -> bool:
    """assert(true), assume(true) → nothing"""
    if constant_of(op.condition) != 1:
        return False
    rewriter.erase(op)
    return True


def int_to_ptr_of_ptr_to_int(op: IntToPtr, rewriter: Rewriter) -> bool:
    """int_to_ptr(ptr_to_int(p) : i64) → p, or bitcast(p) if p points at something else"""
    inner = defining(op.operand, PtrToInt)
    if inner is None or inner.result.type.scalar is not i64:
        return False
    pointer = inner.operand
    if pointer.type is not op.result.type:
        pointer = rewriter.create(op, "tt.bitcast", (pointer,), (op.result.type,)).result
    rewriter.replace(op, (pointer,))
    return True


def int_to_ptr_of_sum(op: IntToPtr, rewriter: Rewriter) -> bool:
    """int_to_ptr(x + c) → int_to_ptr(x) + c / size"""
    sum, type = binary_of(op.operand, "arith.addi"), op.result.type.scalar
    bytes_added = None if sum is None else integer_of(sum.rhs)
    if sum is None or bytes_added is None or not isinstance(type, PointerType):
        return False
    size = max(1, type.pointee.bits // 8)
    if bytes_added % size:
        return False
    base = rewriter.create(op, "tt.int_to_ptr", (sum.lhs,), (op.result.type,))
    offset = rewriter.constant(bytes_added // size, sum.rhs.type)
    rewriter.replace(op, rewriter.create(op, "tt.addptr", (base.result, offset), (op.result.type,)).results)
    return True


ROWS = (
    Equation.of(int_to_ptr_of_ptr_to_int, "tt.int_to_ptr"),
    Equation.of(int_to_ptr_of_sum, "tt.int_to_ptr", given="c is a multiple of the size of what is pointed at"),
    Equation.of(unmasked_load, "tt.load"),
    Equation.of(known_mask_of_store, "tt.store"),
    Equation.of(unreached_atomic, "tt.atomic_rmw", given="nothing uses the result"),
    Equation.of(held_assertion, "tt.assert", "llvm.intr.assume"),
)


# --- buffers ------------------------------------------------------------------------------------------------------


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
    **by_op(IDENTITIES),
    "ttg.local_alloc": (fold_local_alloc,),
    "ttg.memdesc_reinterpret": (fold_reinterpret,),
    "ttg.memdesc_trans": (fold_trans,),
}
RULES: dict[str, tuple[Rule, ...]] = {
    **by_op(ROWS),
    "ttg.memdesc_trans": (trans_of_trans,),
    "ttg.memdesc_subslice": (subslice_of_subslice,),
}
