"""Arithmetic: identities, evaluation of constants by the op's reference semantics, and canonical forms.

Constants are moved to the right operand, chains of constants and of casts are shortened. Float identities hold for NaN,
infinities and both zeros.
"""

from __future__ import annotations

from tilewright.dialects import arith
from tilewright.dialects.arith import Binary, Compare, CompareIntegers
from tilewright.dialects.arithmetic_semantics import ARITHMETIC_SEMANTICS, is_defined
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_elementwise import FpToFp
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.rewriter import Rewriter
from tilewright.transforms.equations import Equation, by_op
from tilewright.transforms.matching import constant_of, number_of


def has_the_type_of_the_result(op: Op, x: Value) -> bool:
    """has the type of the result"""
    return x.type is op.result.type


def comes_back_whole(op: Op, x: Value) -> bool:
    """has the type of the result, and the type between is as wide"""
    (between,) = op.operands
    return x.type is op.result.type and between.type.bits >= x.type.bits


def evaluated(op: Op) -> Number | None:
    """f(c, d, …) → the number that f computes at run time"""
    arrays = []
    for value in op.operands:
        number = number_of(value)
        if number is None:
            return None
        arrays.append(numpy_dtype(number.type).type(number.value))
    if op.definition.semantics is None or not arrays or not is_defined(op, *arrays):
        return None
    value = op.definition.semantics(op, *arrays).item()
    return Number(int(value) if isinstance(value, bool) else value, op.result.type)


def converted_zero(op: FpToFp) -> Number | None:
    """fp_to_fp(0.0) → 0.0, likewise -0.0 where the format has it"""
    zero, type = constant_of(op.operand), op.result.type
    return None if zero != 0 else Number(0.0 if type.scalar.text.endswith("UZ") else zero, type)


IDENTITIES = (
    # Integers, which wrap
    Equation("plus_zero", "x + 0, x - 0, x | 0, x ^ 0, x << 0, x >> 0 → x"),
    Equation("difference_plus_part", "(a - y) + y → a"),
    Equation("minus_itself", "x - x, x ^ x → 0", reason="not for floats: inf - inf is NaN"),
    Equation("sum_minus_part", "(a + y) - y, (y + a) - y → a"),
    Equation("times_one", "x * 1, x / 1 → x"),
    Equation("times_zero", "x * 0, x & 0 → 0", reason="not for floats: NaN * 0 is NaN, -1 * 0 is -0"),
    Equation("remainder_of_one", "x % 1 → 0"),
    Equation("and_all_ones", "x & -1 → x"),
    Equation("or_all_ones", "x | -1 → -1"),
    Equation("both_the_same", "x & x, x | x, minsi(x, x), maxsi(x, x), minui(x, x), maxui(x, x) → x"),
    # Floats
    Equation("plus_negative_zero", "x + -0.0 → x", reason="+0.0 would turn -0.0 into 0.0"),
    Equation("minus_positive_zero", "x - 0.0 → x", reason="-0.0 would turn -0.0 into 0.0"),
    Equation("times_one_of_floats", "x * 1.0, x / 1.0 → x"),
    Equation("both_the_same_float", "minnumf(x, x), maxnumf(x, x), minimumf(x, x), maximumf(x, x) → x"),
    Equation("greatest_with_least", "maximumf(x, -inf) → x", reason="not for maxnumf: of NaN and -inf that is -inf"),
    Equation("least_with_greatest", "minimumf(x, inf) → x", reason="not for minnumf: of NaN and inf that is inf"),
    # Comparisons, selections
    Equation("equal_to_itself", "x == x, x <= x, x >= x → true", reason="of integers: NaN is not equal to itself"),
    Equation("other_than_itself", "x != x, x < x, x > x → false"),
    Equation("truth_of_truth", "b == true, b != false → b"),
    Equation("truth_of_extended", "extui(b) != 0, extsi(b) != 0 → b", given=has_the_type_of_the_result),
    Equation("nothing_is_below_zero", "ult(x, 0) → false"),
    Equation("all_is_from_zero_on", "uge(x, 0) → true"),
    Equation("same_choices", "select(b, x, x) → x"),
    Equation("first_choice", "select(true, x, _) → x"),
    Equation("second_choice", "select(false, _, y) → y"),
    Equation("choice_is_condition", "select(b, true, false) → b", given=has_the_type_of_the_result),
    # Casts
    Equation("cast_to_own_type", "bitcast(x), index_cast(x) → x", given=has_the_type_of_the_result),
    Equation("negated_twice", "negf(negf(x)) → x"),
    Equation(
        "cast_undone",
        "trunci(extsi(x)), trunci(extui(x)), truncf(extf(x)), bitcast(bitcast(x)), index_cast(index_cast(x)) → x",
        given=comes_back_whole,
        reason="an index loses bits on its way through i32",
    ),
    Equation("converted_to_own_type", "fp_to_fp(x) → x", given=has_the_type_of_the_result),
    Equation.of(converted_zero, "tt.fp_to_fp"),
    Equation.of(evaluated, *ARITHMETIC_SEMANTICS, given="LLVM defines the result"),
)
FOLDS = by_op(IDENTITIES)


ORDERS = (("slt", "sgt", "sge"), ("sle", "sge", "sgt"), ("sgt", "slt", "sle"), ("sge", "sle", "slt"))
"""predicate, its mirror image, its opposite"""
ORDERINGS = [tuple(name.replace("s", sign, 1) for name in row) for row in ORDERS for sign in "su"]
MIRRORED = {name: mirrored for name, mirrored, _ in ORDERINGS}
NEGATED = {"eq": "ne", "ne": "eq", **{name: opposite for name, _, opposite in ORDERINGS}}


OUTCOMES = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "<>"}
"""The outcomes <, = and > that a predicate holds for; those of floats that begin with u hold for NaN, too."""
FAMILIES = (
    *(
        ("arith.cmpi", {name if name in ("eq", "ne") else sign + name: {*holds} for name, holds in OUTCOMES.items()})
        for sign in "su"
    ),
    (
        "arith.cmpf",
        {"uno": {"NaN"}}
        | {f"o{name}": {*holds} for name, holds in OUTCOMES.items()}
        | {f"u{name}": {*holds, "NaN"} for name, holds in OUTCOMES.items()},
    ),
)
UNIONS = {
    (kind, a, b): union
    for kind, family in FAMILIES
    for a, holds in family.items()
    for b, others in family.items()
    for union, wanted in family.items()
    if holds | others == wanted
}
"""By op, the predicate that holds where one of two does, if there is one."""


def joined_comparisons(op: Binary, rewriter: Rewriter) -> bool:
    """x > y | x == y → x >= y, likewise for the other predicates"""
    one, other = (defining(value, Compare) for value in op.operands)
    if one is None or other is None or one.operands != other.operands:
        return False
    predicate = UNIONS.get((one.name, one.predicate, other.predicate))
    if predicate is None:
        return False
    new = rewriter.create(op, one.name, one.operands, (op.result.type,), {"predicate": Keyword(predicate)})
    rewriter.replace(op, new.results)
    return True


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
    Equation.of(joined_comparisons, "arith.ori", given="one predicate holds where either does"),
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
