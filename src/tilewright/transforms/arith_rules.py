"""Canonical forms of arithmetic: constants to the right, chains of constants and of casts shortened.

arith.addi %c1, %x             ->  arith.addi %x, %c1
arith.addi (x + 1), 2          ->  arith.addi x, 3
arith.extsi (extsi x)          ->  arith.extsi x
"""

from __future__ import annotations

from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Op, Value
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.types import i1
from tilewright.transforms.fold_arithmetic import all_ones
from tilewright.transforms.matching import constant_of, integer_of, number_of

COMMUTATIVE = tuple(
    f"arith.{name}"
    for name in (
        *("addi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui"),
        *("addf", "mulf", "minnumf", "maxnumf", "minimumf", "maximumf"),
    )
)
ASSOCIATIVE = ("arith.addi", "arith.muli", "arith.andi", "arith.ori", "arith.xori")
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


def constant_to_the_right(op: Op, rewriter: Rewriter) -> bool:
    """c + x  ->  x + c"""
    x, y = op.operands
    if number_of(x) is None or number_of(y) is not None:
        return False
    rewriter.set_operands(op, (y, x))
    return True


def chained_constants(op: Op, rewriter: Rewriter) -> bool:
    """(x + c) + d  ->  x + (c + d)"""
    inner, d = op.operands[0].op, number_of(op.operands[1])
    if inner is None or inner.name != op.name or d is None:
        return False
    c = number_of(inner.operands[1])
    if c is None:
        return False
    both = rewriter.create(op, op.name, (inner.operands[1], op.operands[1]), (op.result.type,))
    rewriter.set_operands(op, (inner.operands[0], both.result))
    return True


def chained_differences(op: Op, rewriter: Rewriter) -> bool:
    """(x + c) - d  ->  x + (c - d);   (x - c) + d  ->  x + (d - c);   (x - c) - d  ->  x - (c + d)"""
    inner = op.operands[0].op
    if inner is None or inner.name not in SIGNS or (op.name, inner.name) == ("arith.addi", "arith.addi"):
        return False
    c, d = integer_of(inner.operands[1]), integer_of(op.operands[1])
    if c is None or d is None:
        return False
    name = "arith.subi" if op.name == inner.name else "arith.addi"
    total = SIGNS[name] * (SIGNS[inner.name] * c + SIGNS[op.name] * d)
    constant = rewriter.constant(total, op.result.type)
    sum = rewriter.create(op, name, (inner.operands[0], constant), (op.result.type,))
    rewriter.replace(op, sum.results)
    return True


def difference_from_constant(op: Op, rewriter: Rewriter) -> bool:
    """d - (x + c)  ->  (d - c) - x;   d - (x - c)  ->  (d + c) - x;   d - (c - x)  ->  x + (d - c)"""
    d, inner = integer_of(op.operands[0]), op.operands[1].op
    if d is None or inner is None or inner.name not in SIGNS:
        return False
    c, e = (integer_of(value) for value in inner.operands)
    if e is not None:
        return _replace(op, "arith.subi", d - SIGNS[inner.name] * e, inner.operands[0], rewriter)
    return (
        c is not None and inner.name == "arith.subi" and _replace(op, "arith.addi", d - c, inner.operands[1], rewriter)
    )


def constant_added_to_difference(op: Op, rewriter: Rewriter) -> bool:
    """(c - x) + d  ->  (c + d) - x;   (c - x) - d  ->  (c - d) - x"""
    inner, d = op.operands[0].op, integer_of(op.operands[1])
    if d is None or inner is None or inner.name != "arith.subi":
        return False
    c = integer_of(inner.operands[0])
    return c is not None and _replace(op, "arith.subi", c + SIGNS[op.name] * d, inner.operands[1], rewriter)


def _replace(op: Op, name: str, number: int, x: Value, rewriter: Rewriter) -> bool:
    """Put x + number (`arith.addi`) or number - x (`arith.subi`) in the place of `op`."""
    constant = rewriter.constant(number, op.result.type)
    operands = (x, constant) if name == "arith.addi" else (constant, x)
    rewriter.replace(op, rewriter.create(op, name, operands, (op.result.type,)).results)
    return True


def compare_constant_on_the_right(op: Op, rewriter: Rewriter) -> bool:
    """c < x  ->  x > c"""
    x, y = op.operands
    predicate = op.attributes["predicate"]
    assert isinstance(predicate, Keyword), "a comparison has a predicate"
    if number_of(x) is None or number_of(y) is not None:
        return False
    op.attributes["predicate"] = Keyword(MIRRORED.get(predicate.name, predicate.name))
    rewriter.set_operands(op, (y, x))
    return True


def truth_of_extended(op: Op, rewriter: Rewriter) -> bool:
    """ext(b : i1) != 0  ->  b"""
    inner = op.operands[0].op
    if inner is None or inner.name not in ("arith.extui", "arith.extsi") or constant_of(op.operands[1]) != 0:
        return False
    if op.attributes["predicate"] != Keyword("ne") or inner.operands[0].type is not op.result.type:
        return False
    rewriter.replace(op, inner.operands)
    return True


def not_of_comparison(op: Op, rewriter: Rewriter) -> bool:
    """(x < y) ^ true  ->  x >= y"""
    inner = op.operands[0].op
    if inner is None or inner.name != "arith.cmpi" or constant_of(op.operands[1]) != 1:
        return False
    predicate = inner.attributes["predicate"]
    assert isinstance(predicate, Keyword), "a comparison has a predicate"
    negated: Keyword = Keyword(NEGATED[predicate.name])
    new = rewriter.create(op, "arith.cmpi", inner.operands, (op.result.type,), {"predicate": negated})
    rewriter.replace(op, new.results)
    return True


def cast_of_cast(op: Op, rewriter: Rewriter) -> bool:
    """extsi(extsi(x))  ->  extsi(x), and the other rows of CAST_OF_CAST"""
    inner = op.operands[0].op
    name = None if inner is None else CAST_OF_CAST.get((op.name, inner.name))
    if inner is None or name is None:
        return False
    rewriter.replace(op, rewriter.create(op, name, inner.operands, (op.result.type,)).results)
    return True


def truncation_of_extension(op: Op, rewriter: Rewriter) -> bool:
    """trunci(ext(x))  ->  trunci(x) if the result is narrower than x, ext(x) if it is wider"""
    inner = op.operands[0].op
    if inner is None or inner.name not in ("arith.extsi", "arith.extui"):
        return False
    x = inner.operands[0]
    name = "arith.trunci" if op.result.type.bits < x.type.bits else inner.name
    rewriter.replace(op, rewriter.create(op, name, (x,), (op.result.type,)).results)
    return True


def absolute_of_negative(op: Op, rewriter: Rewriter) -> bool:
    """|-x|  ->  |x|"""
    inner = op.operands[0].op
    if inner is None or inner.name != "arith.negf":
        return False
    rewriter.set_operands(op, inner.operands)
    return True


def select_of_negated(op: Op, rewriter: Rewriter) -> bool:
    """select(c ^ true, x, y)  ->  select(c, y, x)"""
    condition, x, y = op.operands
    inner = condition.op
    if inner is None or inner.name != "arith.xori" or constant_of(inner.operands[1]) != all_ones(i1):
        return False
    rewriter.set_operands(op, (inner.operands[0], y, x))
    return True


def select_false_true(op: Op, rewriter: Rewriter) -> bool:
    """select(c, false, true)  ->  c ^ true"""
    condition, x, y = op.operands
    if condition.type is not x.type or constant_of(x) != 0 or constant_of(y) != 1:
        return False
    rewriter.replace(op, rewriter.create(op, "arith.xori", (condition, y), (op.result.type,)).results)
    return True


def select_of_select(op: Op, rewriter: Rewriter) -> bool:
    """select(c, select(c, x, _), y)  ->  select(c, x, y);   select(c, x, select(c, _, y))  ->  select(c, x, y)"""
    condition, x, y = op.operands
    for position, value in ((1, x), (2, y)):
        inner = value.op
        if inner is not None and inner.name == "arith.select" and inner.operands[0] is condition:
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
