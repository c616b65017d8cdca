"""Folds of `arith` and `math` ops: identities, and evaluation of constant operands by the op's reference semantics.

    arith.addi %x, %c0  ->  %x          arith.muli %c6, %c7  ->  42          arith.select %true, %a, %b  ->  %a

An identity is a function of the operands x and y and of y's number (None if unknown); commutative ops have their
constant on the right already (`arith_rules.constant_to_the_right`). Float identities hold for NaN, infinities and
both zeros: x - x and x * 0 are no identities there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeAlias

from tilewright.dialects.arith import EXTENSIONS, Binary, CompareIntegers, Select, Unary
from tilewright.dialects.arithmetic_semantics import ARITHMETIC_SEMANTICS, is_defined
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_elementwise import FpToFp
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.rewriter import Fold
from tilewright.ir.types import Type, i1
from tilewright.transforms.matching import binary_of, constant_of, number_of, unary_of

Constant: TypeAlias = "int | float | None"
Identity: TypeAlias = Callable[[Value, Value, Constant], "Value | Number | None"]


def evaluate(op: Op) -> Number | None:
    """The result of an op on constants, exactly as it would be at run time; None where LLVM leaves it undefined."""
    numbers = [number_of(value) for value in op.operands]
    if op.definition.semantics is None or not numbers or None in numbers:
        return None
    arrays = [numpy_dtype(n.type).type(n.value) for n in numbers if n is not None]
    if not is_defined(op, *arrays):
        return None
    type = op.result.type
    value = op.definition.semantics(op, *arrays).item()
    return Number(int(value) if isinstance(value, bool) else value, type)


# --- identities of integers ---------------------------------------------------------------------------------------


def all_ones(type: Type) -> int:
    """-1 as a constant of the type: `true` is 1."""
    return 1 if type.scalar is i1 else -1


def plus_zero(x: Value, y: Value, c: Constant) -> Value | None:
    """x + 0, x - 0, x | 0, x ^ 0, x << 0, x >> 0  ->  x"""
    return x if c == 0 else None


def minus_itself(x: Value, y: Value, c: Constant) -> Number | None:
    """x - x, x ^ x  ->  0"""
    return Number(0, x.type) if x is y else None


def times_one(x: Value, y: Value, c: Constant) -> Value | None:
    """x * 1, x / 1  ->  x"""
    return x if c == 1 and x.type.scalar is not i1 else None


def times_zero(x: Value, y: Value, c: Constant) -> Number | None:
    """x * 0, x & 0  ->  0"""
    return Number(0, x.type) if c == 0 else None


def remainder_of_one(x: Value, y: Value, c: Constant) -> Number | None:
    """x % 1  ->  0"""
    return Number(0, x.type) if c == 1 else None


def with_itself(x: Value, y: Value, c: Constant) -> Value | None:
    """x & x, x | x, min(x, x), max(x, x)  ->  x"""
    return x if x is y else None


def and_all_ones(x: Value, y: Value, c: Constant) -> Value | None:
    """x & -1  ->  x"""
    return x if c == all_ones(x.type) else None


def or_all_ones(x: Value, y: Value, c: Constant) -> Value | None:
    """x | -1  ->  -1"""
    return y if c == all_ones(x.type) else None


def sum_minus_part(x: Value, y: Value, c: Constant) -> Value | None:
    """(a + y) - y, (y + a) - y  ->  a"""
    sum = binary_of(x, "arith.addi")
    if sum is None:
        return None
    a, b = sum.operands
    return a if b is y else b if a is y else None


def difference_plus_part(x: Value, y: Value, c: Constant) -> Value | None:
    """(a - y) + y  ->  a"""
    difference = binary_of(x, "arith.subi")
    return difference.lhs if difference is not None and difference.rhs is y else None


# --- identities of floats -----------------------------------------------------------------------------------------


def plus_negative_zero(x: Value, y: Value, c: Constant) -> Value | None:
    """x + -0.0  ->  x    (x + 0.0 would turn -0.0 into 0.0)"""
    return x if c == 0 and str(c)[0] == "-" else None


def minus_positive_zero(x: Value, y: Value, c: Constant) -> Value | None:
    """x - 0.0  ->  x"""
    return x if c == 0 and str(c)[0] != "-" else None


def most_with_least(x: Value, y: Value, c: Constant) -> Value | None:
    """maximum(x, -inf)  ->  x    (x is NaN: so is the maximum)"""
    return x if c == -inf else None


def least_with_most(x: Value, y: Value, c: Constant) -> Value | None:
    """minimum(x, inf)  ->  x"""
    return x if c == inf else None


IDENTITIES: dict[str, tuple[Identity, ...]] = {
    "arith.addi": (plus_zero, difference_plus_part),
    "arith.subi": (plus_zero, minus_itself, sum_minus_part),
    "arith.muli": (times_one, times_zero),
    "arith.divsi": (times_one,),
    "arith.divui": (times_one,),
    "arith.ceildivsi": (times_one,),
    "arith.ceildivui": (times_one,),
    "arith.floordivsi": (times_one,),
    "arith.remsi": (remainder_of_one,),
    "arith.remui": (remainder_of_one,),
    "arith.andi": (times_zero, and_all_ones, with_itself),
    "arith.ori": (plus_zero, or_all_ones, with_itself),
    "arith.xori": (plus_zero, minus_itself),
    "arith.shli": (plus_zero,),
    "arith.shrsi": (plus_zero,),
    "arith.shrui": (plus_zero,),
    "arith.minsi": (with_itself,),
    "arith.maxsi": (with_itself,),
    "arith.minui": (with_itself,),
    "arith.maxui": (with_itself,),
    "arith.addf": (plus_negative_zero,),
    "arith.subf": (minus_positive_zero,),
    "arith.mulf": (times_one,),
    "arith.divf": (times_one,),
    "arith.minnumf": (with_itself,),
    "arith.maxnumf": (with_itself,),
    "arith.minimumf": (with_itself, least_with_most),
    "arith.maximumf": (with_itself, most_with_least),
}


def _binary_fold(identities: Sequence[Identity]) -> Fold:
    def fold(op: Binary) -> Value | Number | None:
        x, y = op.operands
        c = constant_of(y)
        for identity in identities:
            found = identity(x, y, c)
            if found is not None:
                return found
        return evaluate(op) if c is not None else None

    return fold


# --- comparisons, selections, casts -------------------------------------------------------------------------------

TRUE_OF_EQUALS = frozenset(("eq", "sle", "sge", "ule", "uge"))


def fold_cmpi(op: CompareIntegers) -> Value | Number | None:
    """x == x, x <= x  ->  true;   x != x, x < x  ->  false;   b == true, b != false  ->  b"""
    (x, y), predicate = op.operands, op.predicate
    if x is y:
        return Number(int(predicate in TRUE_OF_EQUALS), op.result.type)
    if x.type.scalar is i1 and (predicate, constant_of(y)) in (("eq", 1), ("ne", 0)):
        return x
    if predicate in ("ult", "uge") and constant_of(y) == 0:
        return Number(int(predicate == "uge"), op.result.type)
    return evaluate(op)


def fold_select(op: Select) -> Value | Number | None:
    """select(c, x, x) -> x;   select(true, x, y) -> x;   select(false, x, y) -> y;   select(c, true, false) -> c"""
    condition, x, y = op.operands
    if x is y:
        return x
    constant = constant_of(condition)
    if constant is not None:
        return x if constant else y
    if condition.type is x.type and constant_of(x) == 1 and constant_of(y) == 0:
        return condition
    return None


UNDONE_BY = {
    "arith.negf": ("arith.negf",),
    "arith.trunci": ("arith.extsi", "arith.extui"),
    "arith.truncf": ("arith.extf",),
    "arith.bitcast": ("arith.bitcast",),
    "arith.index_cast": ("arith.index_cast",),
}


def fold_unary(op: Unary) -> Value | Number | None:
    """cast(x) to x's own type -> x;   -(-x) -> x;   trunci(extsi(x)) -> x;   truncf(extf(x)) -> x"""
    x = op.operand
    if x.type is op.result.type and op.name in UNDONE_BY and op.name != "arith.negf":
        return x
    inner = unary_of(x, *UNDONE_BY.get(op.name, ()))
    if inner is not None and inner.operand.type is op.result.type:
        return inner.operand
    return evaluate(op)


def fold_fp_to_fp(op: FpToFp) -> Value | Number | None:
    """fp_to_fp(x) to x's own type  ->  x;   fp_to_fp(0.0)  ->  0.0, also -0.0 where the format has it"""
    x, type = op.operand, op.result.type
    if x.type is type:
        return x
    zero = constant_of(x)
    if zero != 0:
        return None
    return Number(0.0 if type.scalar.text.endswith("UZ") else zero, type)


FOLDS: dict[str, Fold] = {
    **dict.fromkeys(ARITHMETIC_SEMANTICS, evaluate),
    **{name: _binary_fold(identities) for name, identities in IDENTITIES.items()},
    **dict.fromkeys((*UNDONE_BY, *EXTENSIONS), fold_unary),
    "arith.cmpi": fold_cmpi,
    "arith.select": fold_select,
    "tt.fp_to_fp": fold_fp_to_fp,
}
