"""Canonical forms of arithmetic: constants to the right, chains of constants and of casts shortened."""

from __future__ import annotations

from tilewright.dialects import arith
from tilewright.dialects.arith import Binary, CompareIntegers
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.rewriter import Rewriter
from tilewright.transforms.equations import Equation, by_op
from tilewright.transforms.fold_arithmetic import has_the_type_of_the_result
from tilewright.transforms.matching import constant_of, number_of

ORDERS = (("slt", "sgt", "sge"), ("sle", "sge", "sgt"), ("sgt", "slt", "sle"), ("sge", "sle", "slt"))
"""predicate, its mirror image, its opposite"""
ORDERINGS = [tuple(name.replace("s", sign, 1) for name in row) for row in ORDERS for sign in "su"]
MIRRORED = {name: mirrored for name, mirrored, _ in ORDERINGS}
NEGATED = {"eq": "ne", "ne": "eq", **{name: opposite for name, _, opposite in ORDERINGS}}


def constant_to_the_right(op: Binary, rewriter: Rewriter) -> bool:
    """f(c, x) → f(x, c)"""
    x, y = op.operands
    if number_of(x) is None or number_of(y) is not None:
        return False
    rewriter.set_operands(op, (y, x))
    return True


def compared_constant_to_the_right(op: CompareIntegers, rewriter: Rewriter) -> bool:
    """c < x → x > c, likewise for the other predicates"""
    if not constant_to_the_right(op, rewriter):
        return False
    op.attributes["predicate"] = Keyword(MIRRORED.get(op.predicate, op.predicate))
    return True


def negated_comparison(op: Binary, rewriter: Rewriter) -> bool:
    """(x < y) ^ true → x >= y, likewise for the other predicates"""
    inner = defining(op.lhs, CompareIntegers)
    if inner is None or constant_of(op.rhs) != 1:
        return False
    negated = Keyword(NEGATED[inner.predicate])
    new = rewriter.create(op, "arith.cmpi", inner.operands, (op.result.type,), {"predicate": negated})
    rewriter.replace(op, new.results)
    return True


def is_narrowed(op: Op, x: Value) -> bool:
    """is wider than the result"""
    return op.result.type.bits < x.type.bits


def is_widened(op: Op, x: Value) -> bool:
    """is narrower than the result"""
    return op.result.type.bits > x.type.bits


COMMUTATIVE = tuple(f"arith.{name}" for name in sorted(arith.COMMUTATIVE))
ROWS = (
    Equation.of(
        constant_to_the_right,
        *COMMUTATIVE,
        given="f is commutative, x is no constant",
        reason="other rows look for constants on the right only",
    ),
    *(Equation("chained_constants", f"(x {sign} c) {sign} d → x {sign} (c {sign} d)") for sign in "+*&|^"),
    Equation("sum_minus_constant", "(x + c) - d → x + (c - d)"),
    Equation("difference_plus_constant", "(x - c) + d → x + (d - c)"),
    Equation("difference_minus_constant", "(x - c) - d → x - (c + d)"),
    Equation("constant_minus_sum", "d - (x + c) → (d - c) - x"),
    Equation("constant_minus_difference", "d - (x - c) → (d + c) - x"),
    Equation("constant_minus_reversed", "d - (c - x) → x + (d - c)"),
    Equation("reversed_plus_constant", "(c - x) + d → (c + d) - x"),
    Equation("reversed_minus_constant", "(c - x) - d → (c - d) - x"),
    Equation.of(compared_constant_to_the_right, "arith.cmpi", given="x is no constant"),
    Equation.of(negated_comparison, "arith.xori"),
    Equation("widened_twice_by_sign", "extsi(extsi(x)) → extsi(x)"),
    Equation("widened_twice_by_zeros", "extui(extui(x)), extsi(extui(x)) → extui(x)"),
    Equation("narrowed_twice", "trunci(trunci(x)) → trunci(x)", reason="not for floats, which would be rounded once"),
    Equation("bits_of_bits", "bitcast(bitcast(x)) → bitcast(x)"),
    Equation("widened_float_widened", "extf(extf(x)) → extf(x)"),
    Equation("narrowed_extension", "trunci(extsi(x)), trunci(extui(x)) → trunci(x)", given=is_narrowed),
    Equation("signed_extension_cut", "trunci(extsi(x)) → extsi(x)", given=is_widened),
    Equation("unsigned_extension_cut", "trunci(extui(x)) → extui(x)", given=is_widened),
    Equation("absolute_of_negative", "absf(negf(x)) → absf(x)"),
    Equation("choice_of_negated", "select(b ^ true, x, y) → select(b, y, x)"),
    Equation("choice_is_negated", "select(b, false, true) → b ^ true", given=has_the_type_of_the_result),
    Equation("choice_in_first", "select(b, select(b, x, _), y) → select(b, x, y)"),
    Equation("choice_in_second", "select(b, x, select(b, _, y)) → select(b, x, y)"),
)
RULES = by_op(ROWS)
