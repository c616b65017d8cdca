"""Canonical forms of arithmetic: constants to the right, chains of constants and of casts shortened.

arith.addi %c1, %x             ->  arith.addi %x, %c1
arith.addi (x + 1), 2          ->  arith.addi x, 3
arith.extsi (extsi x)          ->  arith.extsi x
"""

from __future__ import annotations

from tilewright.dialects.arith import FLOAT_BINARY, INTEGER_BINARY, Binary, CompareIntegers, Select, Unary
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Value, defining
from tilewright.ir.declare import OPS
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.types import i1
from tilewright.transforms.fold_arithmetic import all_ones
from tilewright.transforms.matching import binary_of, constant_of, integer_of, number_of, unary_of

OF_TWO_NUMBERS = [OPS[f"arith.{name}"] for name in (*INTEGER_BINARY, *FLOAT_BINARY)]
COMMUTATIVE = tuple(kind.name for kind in OF_TWO_NUMBERS if kind.commutative)
ASSOCIATIVE = tuple(kind.name for kind in OF_TWO_NUMBERS if kind.associative)
SIGNS = {"arith.addi": 1, "arith.subi": -1}
ORDERS = (("slt", "sgt", "sge"), ("sle", "sge", "sgt"), ("sgt", "slt", "sle"), ("sge", "sle", "slt"))
"""predicate, its mirror image, its opposite"""
ORDERINGS = [tuple(name.replace("s", sign, 1) for name in row) for row in ORDERS for sign in "su"]
MIRRORED = {name: mirrored for name, mirrored, _ in ORDERINGS}
NEGATED = {"eq": "ne", "ne": "eq", **{name: opposite for name, _, opposite in ORDERINGS}}
CAST_OF_CAST = {
    ("arith.extsi", "arith.extsi"): "arith.extsi",
    ("arith.extsi", "arith.extui"): "arith.extui",
    ("arith.extui", "arith.extui"): "arith.extui",
    ("arith.trunci", "arith.trunci"): "arith.trunci",
    ("arith.bitcast", "arith.bitcast"): "arith.bitcast",
    ("arith.extf", "arith.extf"): "arith.extf",
}
"""(outer, inner) -> the one cast that does both. Two float truncations round twice and stay."""


def constant_to_the_right(op: Binary, rewriter: Rewriter) -> bool:
    """c + x  ->  x + c"""
    x, y = op.operands
    if number_of(x) is None or number_of(y) is not None:
        return False
    rewriter.set_operands(op, (y, x))
    return True


def chained_constants(op: Binary, rewriter: Rewriter) -> bool:
    """(x + c) + d  ->  x + (c + d)"""
    inner = binary_of(op.lhs, op.name)
    if inner is None or number_of(inner.rhs) is None or number_of(op.rhs) is None:
        return False
    both = rewriter.create(op, op.name, (inner.rhs, op.rhs), (op.result.type,))
    rewriter.set_operands(op, (inner.lhs, both.result))
    return True


def chained_differences(op: Binary, rewriter: Rewriter) -> bool:
    """(x + c) - d  ->  x + (c - d);   (x - c) + d  ->  x + (d - c);   (x - c) - d  ->  x - (c + d)"""
    inner = binary_of(op.lhs, *SIGNS)
    if inner is None or (op.name, inner.name) == ("arith.addi", "arith.addi"):
        return False
    c, d = integer_of(inner.rhs), integer_of(op.rhs)
    if c is None or d is None:
        return False
    name = "arith.subi" if op.name == inner.name else "arith.addi"
    total = SIGNS[name] * (SIGNS[inner.name] * c + SIGNS[op.name] * d)
    constant = rewriter.constant(total, op.result.type)
    sum = rewriter.create(op, name, (inner.lhs, constant), (op.result.type,))
    rewriter.replace(op, sum.results)
    return True


def difference_from_constant(op: Binary, rewriter: Rewriter) -> bool:
    """d - (x + c)  ->  (d - c) - x;   d - (x - c)  ->  (d + c) - x;   d - (c - x)  ->  x + (d - c)"""
    d, inner = integer_of(op.lhs), binary_of(op.rhs, *SIGNS)
    if d is None or inner is None:
        return False
    c, e = (integer_of(value) for value in inner.operands)
    if e is not None:
        return _replace(op, "arith.subi", d - SIGNS[inner.name] * e, inner.lhs, rewriter)
    return c is not None and inner.name == "arith.subi" and _replace(op, "arith.addi", d - c, inner.rhs, rewriter)


def constant_added_to_difference(op: Binary, rewriter: Rewriter) -> bool:
    """(c - x) + d  ->  (c + d) - x;   (c - x) - d  ->  (c - d) - x"""
    inner, d = binary_of(op.lhs, "arith.subi"), integer_of(op.rhs)
    if d is None or inner is None:
        return False
    c = integer_of(inner.lhs)
    return c is not None and _replace(op, "arith.subi", c + SIGNS[op.name] * d, inner.rhs, rewriter)


def _replace(op: Binary, name: str, number: int, x: Value, rewriter: Rewriter) -> bool:
    """Put x + number (`arith.addi`) or number - x (`arith.subi`) in the place of `op`."""
    constant = rewriter.constant(number, op.result.type)
    operands = (x, constant) if name == "arith.addi" else (constant, x)
    rewriter.replace(op, rewriter.create(op, name, operands, (op.result.type,)).results)
    return True


def compare_constant_on_the_right(op: CompareIntegers, rewriter: Rewriter) -> bool:
    """c < x  ->  x > c"""
    x, y = op.operands
    if number_of(x) is None or number_of(y) is not None:
        return False
    op.attributes["predicate"] = Keyword(MIRRORED.get(op.predicate, op.predicate))
    rewriter.set_operands(op, (y, x))
    return True


def truth_of_extended(op: CompareIntegers, rewriter: Rewriter) -> bool:
    """ext(b : i1) != 0  ->  b"""
    inner = unary_of(op.lhs, "arith.extui", "arith.extsi")
    if inner is None or constant_of(op.rhs) != 0:
        return False
    if op.predicate != "ne" or inner.operand.type is not op.result.type:
        return False
    rewriter.replace(op, inner.operands)
    return True


def not_of_comparison(op: Binary, rewriter: Rewriter) -> bool:
    """(x < y) ^ true  ->  x >= y"""
    inner = defining(op.lhs, CompareIntegers)
    if inner is None or constant_of(op.rhs) != 1:
        return False
    negated = Keyword(NEGATED[inner.predicate])
    new = rewriter.create(op, "arith.cmpi", inner.operands, (op.result.type,), {"predicate": negated})
    rewriter.replace(op, new.results)
    return True


def cast_of_cast(op: Unary, rewriter: Rewriter) -> bool:
    """extsi(extsi(x))  ->  extsi(x), and the other rows of CAST_OF_CAST"""
    inner = op.operand.op
    name = None if inner is None else CAST_OF_CAST.get((op.name, inner.name))
    if inner is None or name is None:
        return False
    rewriter.replace(op, rewriter.create(op, name, inner.operands, (op.result.type,)).results)
    return True


def truncation_of_extension(op: Unary, rewriter: Rewriter) -> bool:
    """trunci(ext(x))  ->  trunci(x) if the result is narrower than x, ext(x) if it is wider"""
    inner = unary_of(op.operand, "arith.extsi", "arith.extui")
    if inner is None:
        return False
    x = inner.operand
    name = "arith.trunci" if op.result.type.bits < x.type.bits else inner.name
    rewriter.replace(op, rewriter.create(op, name, (x,), (op.result.type,)).results)
    return True


def absolute_of_negative(op: Unary, rewriter: Rewriter) -> bool:
    """|-x|  ->  |x|"""
    inner = unary_of(op.operand, "arith.negf")
    if inner is None:
        return False
    rewriter.set_operands(op, inner.operands)
    return True


def select_of_negated(op: Select, rewriter: Rewriter) -> bool:
    """select(c ^ true, x, y)  ->  select(c, y, x)"""
    condition, x, y = op.operands
    inner = binary_of(condition, "arith.xori")
    if inner is None or constant_of(inner.rhs) != all_ones(i1):
        return False
    rewriter.set_operands(op, (inner.lhs, y, x))
    return True


def select_false_true(op: Select, rewriter: Rewriter) -> bool:
    """select(c, false, true)  ->  c ^ true"""
    condition, x, y = op.operands
    if condition.type is not x.type or constant_of(x) != 0 or constant_of(y) != 1:
        return False
    rewriter.replace(op, rewriter.create(op, "arith.xori", (condition, y), (op.result.type,)).results)
    return True


def select_of_select(op: Select, rewriter: Rewriter) -> bool:
    """select(c, select(c, x, _), y)  ->  select(c, x, y);   select(c, x, select(c, _, y))  ->  select(c, x, y)"""
    condition, x, y = op.operands
    for position, value in ((1, x), (2, y)):
        inner = defining(value, Select)
        if inner is not None and inner.condition is condition:
            operands = list(op.operands)
            operands[position] = inner.operands[position]
            rewriter.set_operands(op, operands)
            return True
    return False


def _rules() -> dict[str, tuple[Rule, ...]]:
    rules: dict[str, tuple[Rule, ...]] = dict.fromkeys(COMMUTATIVE, (constant_to_the_right,))
    for name in ASSOCIATIVE:
        rules[name] += (chained_constants,)
    for outer, _ in CAST_OF_CAST:
        rules[outer] = (cast_of_cast,)
    rules["arith.addi"] += (chained_differences, constant_added_to_difference)
    rules["arith.subi"] = (chained_differences, constant_added_to_difference, difference_from_constant)
    rules["arith.trunci"] += (truncation_of_extension,)
    rules["arith.xori"] += (not_of_comparison,)
    rules["arith.cmpi"] = (compare_constant_on_the_right, truth_of_extended)
    rules["arith.select"] = (select_of_negated, select_false_true, select_of_select)
    rules["math.absf"] = (absolute_of_negative,)
    return rules


RULES = _rules()
