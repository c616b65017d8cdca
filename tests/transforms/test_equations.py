"""Rows of rules: each keeps the meaning of drawn programs, and no two of them contradict each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from equation_cases import differences
from equation_overlaps import overlaps

from tilewright.ir.core import Op
from tilewright.ir.rewriter import Rewriter
from tilewright.transforms import arith_rules, combine, memory_rules, shape_rules
from tilewright.transforms.arith_rules import constant_to_the_right, negated_comparison
from tilewright.transforms.equations import Equation

CANONICAL = (
    *(*arith_rules.IDENTITIES, *shape_rules.IDENTITIES, *memory_rules.IDENTITIES),
    *(*arith_rules.ROWS, *shape_rules.ROWS, *memory_rules.ROWS),
)
PATTERNS = [row for row in CANONICAL if row.by is None]
FORMS_OF_FUNCTIONS = {
    "constant_to_the_right": "c + x, c * x, c & x, minui(c, x), addf(c, x), maxnumf(c, x)",
    "compared_constant_to_the_right": "c < x, c >= x, c == x, c != x",
    "negated_comparison": "(x < y) ^ true, (x <= y) ^ true, (x >= c) ^ true, (x == y) ^ true, (x != y) ^ true",
    "joined_comparisons": "(x > y) | (x == y), (x < y) | (x != y), ult(x, y) | (x == y), ult(x, y) | ugt(x, y)",
    "evaluated": "c + d, c - d, c * d, c / d, c % d, c & d, c << d, c >> d, minsi(c, d), maxui(c, d), trunci(c),"
    " extsi(c), extui(c), addf(c, d), subf(c, d), mulf(c, d), divf(c, d), maximumf(c, d), negf(c), truncf(c), extf(c),"
    " c < d, bitcast(c), select(c, d, e), absf(c)",
    "expand_dims_of_broadcast": "expand_dims(broadcast(x))",
    "reshape_of_reshape": "reshape(reshape(x))",
    "trans_of_trans": "trans(trans(x))",
}
"""Programs, one for each row that is a function, which the row matches."""
FUNCTIONS = [row for row in CANONICAL if row.name in FORMS_OF_FUNCTIONS]
ELSEWHERE = {
    *(row.name for row in (*memory_rules.IDENTITIES, *memory_rules.ROWS, *combine.ROWS) if row.by is not None),
    *("converted_zero", "one_step", "split_of_join", "join_of_split"),
}
"""Functions on memory, on several results or with regions, whose tests are texts in the files of their topic."""


def named(row: Equation) -> str:
    return f"{row.name} {row.text}"


@pytest.mark.parametrize("row", [*PATTERNS, *FUNCTIONS], ids=named)
def test_row_keeps_meaning(row: Equation) -> None:
    applied, wrong = differences(row, left=FORMS_OF_FUNCTIONS.get(row.name, ""))
    assert applied
    assert wrong == []


def test_every_row_is_tried() -> None:
    names = {row.name for row in CANONICAL} | {row.name for row in combine.ROWS}
    assert names == {row.name for row in PATTERNS} | FORMS_OF_FUNCTIONS.keys() | ELSEWHERE


def test_names_and_texts_are_unique() -> None:
    assert len({named(row) for row in CANONICAL}) == len(CANONICAL)


# --- the tests of meaning notice wrong rows -----------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("row", [row for row in PATTERNS if callable(row.given)], ids=named)
def test_no_condition_can_be_dropped(row: Equation) -> None:
    _, wrong = differences(replace(row, given=""))
    assert wrong


@pytest.mark.parametrize(
    "text",
    [
        "x + 0.0 → x",
        "x - -0.0 → x",
        "x - x → 0.0",
        "x * 0.0 → 0.0",
        "x * 2 → x",
        "x & 1 → x",
        "x | 1 → 1",
        "x / -1 → x",
        "x % 2 → 0",
        "maxnumf(x, -inf) → x",
        "minnumf(x, inf) → x",
        "maximumf(x, 0.0) → x",
        "(y - a) + y → a",
        "(a + y) - a → a",
        "x < x → true",
        "x >= x → false",
        "ult(x, 1) → false",
        "slt(x, 0) → false",
        "select(true, _, y) → y",
        "select(b ^ true, x, y) → select(b, x, y)",
        "select(b, select(b, _, x), y) → select(b, x, y)",
        "truncf(truncf(x)) → truncf(x)",
        "extui(extsi(x)) → extsi(x)",
        "extsi(extui(x)) → extsi(x)",
        "absf(negf(x)) → negf(x)",
        "(x + c) - d → x + (d - c)",
        "(x - c) + d → x + (c + d)",
        "d - (c - x) → x + (c - d)",
        "(x * c) + d → x * (c + d)",
        "(x << c) << d → x << (c + d)",
        "(x + c) + d → x + (c + c)",
        "addptr(p, 1) → p",
    ],
)
def test_wrong_equations_are_noticed(text: str) -> None:
    applied, wrong = differences(Equation("wrong", text))
    assert applied
    assert wrong


def mirrored_without_its_predicate(op: Op, rewriter: Rewriter) -> bool:
    """c < x → x < c"""
    return constant_to_the_right(op, rewriter)


def subtraction_turned(op: Op, rewriter: Rewriter) -> bool:
    """c - x → x - c"""
    return constant_to_the_right(op, rewriter)


def negated_without_looking(op: Op, rewriter: Rewriter) -> bool:
    """(x < y) ^ c → x >= y"""
    op.set_operand(1, rewriter.constant(1, op.result.type))
    return negated_comparison(op, rewriter)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("function", "op"),
    [
        (mirrored_without_its_predicate, "arith.cmpi"),
        (subtraction_turned, "arith.subi"),
        (negated_without_looking, "arith.xori"),
    ],
)
def test_wrong_functions_are_noticed(function, op: str) -> None:
    applied, wrong = differences(Equation.of(function, op))
    assert applied
    assert wrong


# --- overlaps -----------------------------------------------------------------------------------------------------


TWO_SPELLINGS = [
    f"x + 0, x - 0, x | 0, x ^ 0, x << 0, x >> 0 → x and (x - c) + d → x + (d - c) on addi(x2 - c2, 0) : {type}"
    for type in ("i1", "i8", "i16", "i32", "i64", "index")
]
"""x - c and x + -c are both canonical; of (x - c) + 0 the fold makes x - c, as folds come before rules."""


def contradictions(pairs: Iterable[tuple[Equation, Equation]]) -> list[str]:
    return [found for row, other in pairs for found in overlaps(row, other)]


@pytest.mark.spared
def test_rows_that_match_the_same_op_agree() -> None:
    """They come to one result in the end, or one of them is more specific and comes first."""
    functions = [replace(row, text=f"{FORMS_OF_FUNCTIONS[row.name]} → _") for row in FUNCTIONS]
    assert contradictions(combinations([*PATTERNS, *functions], 2)) == TWO_SPELLINGS


@pytest.mark.parametrize(
    "text", ["x + 0 → 0", "x - x → x", "(x + c) - d → x - c", "select(b, x, x) → select(b, x, 1)", "x & 0 → x"]
)
def test_contradictions_are_noticed(text: str) -> None:
    assert contradictions((row, Equation("wrong", text)) for row in PATTERNS)
