"""Sets of numbers: each claim holds for every number that NumPy is given; what machines may round is not claimed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright.dialects  # noqa: F401 - the ops of the texts
from tilewright.analysis.possible_numbers import (
    ZERO,
    Numbers,
    combines_to_itself,
    numbers_of_constant,
    numbers_of_result,
    numbers_of_zero,
)
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.types import PointerType, f32, i1, i32

NUMBERS = ("0.0", "-0.0", "1.0", "-1.0", "inf", "-inf", "nan", "2.5", "-7.0", "1e-30", "3e+38", "1e-45", "0.1")
SETS: list[Numbers] = [
    *(frozenset((number,)) for number in NUMBERS[:8]),
    *map(frozenset, (("0.0", "nan"), ("inf", "-inf"), ("-inf", "nan"))),
    *map(frozenset, (("0.0", "-0.0"), ("0.0", "inf"), ("1.0", "0.1"))),
    None,
]
UNARY = ("math.exp", "math.exp2", "math.absf", "arith.negf", "math.log", "math.sqrt", "math.sin")
BINARY = (
    *("arith.addf", "arith.divf", "arith.maximumf", "arith.maxnumf"),
    *("arith.minimumf", "arith.minnumf", "arith.mulf", "arith.subf"),
)


def op_of(name: str, operands: int, element: str = "f32") -> Op:
    values = ", ".join(["%a", "%b", "%c"][:operands])
    text = f"tt.func @f(%a: T, %b: T, %c: T) {{\n  %r = {name} {values} : T\n  tt.return\n}}".replace("T", element)
    return next(op for op in parse_module(text).walk() if op.name == name)


@pytest.mark.quick
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_results_are_among_what_is_claimed(name: str) -> None:
    """The numbers above stand for any number."""
    count = 1 if name in UNARY else 2
    op = op_of(name, count)
    semantics: Any = op.definition.semantics
    for sets in product(SETS, repeat=count):
        claimed = numbers_of_result(op, sets)
        if claimed is not None:
            for numbers in product(*(NUMBERS if chosen is None else sorted(chosen) for chosen in sets)):
                found = semantics(op, *(np.float32(number) for number in numbers))
                assert repr(float(found)) in claimed, (name, sets, numbers)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("arith.subf", ["-inf", None], {"-inf", "nan"}),
        ("arith.subf", [None, "-inf"], {"inf", "nan"}),
        ("arith.mulf", ["0.0", None], {"0.0", "-0.0", "nan"}),
        ("arith.mulf", ["-inf", "0.1"], {"inf", "-inf", "nan"}),
        ("arith.divf", ["0.0", None], {"0.0", "-0.0", "nan"}),
        ("arith.divf", [None, "0.0"], None),
        ("arith.addf", ["0.0", None], None),
        ("arith.addf", ["0.0", "0.0"], {"0.0"}),
        ("arith.mulf", ["0.1", "0.1"], None),
        ("arith.maxnumf", ["0.0", "-0.0"], None),
        ("arith.maxnumf", ["0.0", "nan"], {"0.0"}),
        ("math.exp", ["-inf"], {"0.0"}),
        ("math.exp", ["-200.0"], None),
        ("math.sin", ["0.0"], None),
        ("arith.andi", ["0", None], {"0"}),
        ("arith.muli", [None, "0"], {"0"}),
        ("arith.andi", ["1", None], None),
        ("arith.addi", ["0", None], None),
    ],
)
def test_claims(name: str, operands: list[str | None], result: set[str] | None) -> None:
    numbers = [None if operand is None else frozenset((operand,)) for operand in operands]
    op = op_of(name, len(operands), "i32" if name.endswith("i") else "f32")
    assert numbers_of_result(op, numbers) == result


def test_how_much_is_claimed(golden: Callable[[str, str], None]) -> None:
    """For how many of the sets above, and how many numbers: less would be true, too."""
    lines = []
    for name in (*UNARY, *BINARY):
        count = 1 if name in UNARY else 2
        op = op_of(name, count)
        answers = (numbers_of_result(op, sets) for sets in product(SETS, repeat=count))
        claims = [claimed for claimed in answers if claimed is not None]
        lines.append(f"{name}: {len(claims)} of {len(SETS) ** count}, {sum(map(len, claims))} numbers\n")
    golden("".join(lines), "analysis/possible_numbers.txt")


@pytest.mark.parametrize(("name", "operands"), [("arith.subf", ["-inf", None]), ("arith.negf", ["1.0"])])
def test_nothing_is_claimed_of_eight_bits_which_saturate(name: str, operands: list[str | None]) -> None:
    numbers = [None if operand is None else frozenset((operand,)) for operand in operands]
    assert numbers_of_result(op_of(name, len(operands), "f16"), numbers) is not None
    assert numbers_of_result(op_of(name, len(operands), "f8E5M2"), numbers) is None


def test_selections_of_either_side() -> None:
    text = "tt.func @f(%c: i1, %a: f32) {\n  %r = arith.select %c, %a, %a : f32\n  tt.return\n}"
    op = next(op for op in parse_module(text).walk() if op.name == "arith.select")
    one, two = frozenset(("1.0",)), frozenset(("0.0",))
    assert numbers_of_result(op, [ZERO, None, two]) == two
    assert numbers_of_result(op, [frozenset("1"), one, None]) == one
    assert numbers_of_result(op, [None, one, two]) == one | two
    assert numbers_of_result(op, [frozenset("01"), one, None]) is None


def test_bits_of_nan_are_not_known() -> None:
    """There are many NaNs: inf - inf has a sign bit on x86, and none elsewhere."""
    text = "tt.func @f(%a: f32) {\n  %r = tt.bitcast %a : f32 -> i32\n  tt.return\n}"
    op = next(op for op in parse_module(text).walk() if op.name == "tt.bitcast")
    assert numbers_of_result(op, [frozenset(("0.0", "-0.0"))]) == {"0", str(-(1 << 31))}
    assert numbers_of_result(op, [frozenset(("0.0", "nan"))]) is None


def test_constants_and_zeros() -> None:
    assert numbers_of_constant(Number(-0.0, f32)) == {"-0.0"}
    assert numbers_of_constant(Number(-1, i1)) == {"1"}
    assert numbers_of_zero(i32) == ZERO
    assert numbers_of_zero(PointerType(f32)) is None


def combine_of(body: str, *types: str) -> Any:
    names = [f"%a{i}: {t}" for i, t in enumerate(types)] + [f"%b{i}: {t}" for i, t in enumerate(types)]
    tiles = ", ".join(f"tensor<4x{t}>" for t in types)
    text = f"""tt.func @f({", ".join(f"%x{i}: tensor<4x{t}>" for i, t in enumerate(types))}) {{
  %r:{len(types)} = "tt.reduce"({", ".join(f"%x{i}" for i in range(len(types)))}) <{{axis = 0 : i32}}> ({{
  ^bb0({", ".join(names)}):
{body}
  }}) : ({tiles}) -> ({", ".join(types)})
  tt.return
}}"""
    if len(types) == 1:
        text = text.replace("%r:1", "%r").replace(f"-> ({types[0]})", f"-> {types[0]}")
    return next(op.combine for op in parse_module(text).walk() if isinstance(op, Reduce))


def returning(lines: str, type: str) -> str:
    return f"{lines}\n    tt.reduce.return %r : {type}"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("op", "yes", "no"),
    [
        ("arith.addf", ["0.0", "-0.0", "inf", "-inf", "nan"], ["1.0", "-1.0", "0.1", None]),
        ("arith.mulf", ["0.0", "1.0", "inf", "nan"], ["-0.0", "-1.0", "-inf", "2.5", None]),
        ("arith.maxnumf", ["0.0", "0.1", "nan", None], []),
        ("arith.minimumf", ["-inf", None], []),
    ],
)
def test_combining_floats(op: str, yes: list[str | None], no: list[str | None]) -> None:
    block = combine_of(returning(f"    %r = {op} %a0, %b0 : f32", "f32"), "f32")
    for number in (*yes, *no):
        tail = None if number is None else frozenset((number,))
        assert combines_to_itself(block, [tail]) is (number in yes), number


def test_combining_by_other_functions() -> None:
    plus_one = "    %s = arith.addi %a0, %b0 : i32\n    %c = arith.constant 1 : i32\n    %r = arith.addi %s, %c : i32"
    block = combine_of(returning(plus_one, "i32"), "i32")
    assert combines_to_itself(block, [frozenset(("-1",))])
    assert not combines_to_itself(block, [ZERO])
    same_side = combine_of(returning("    %r = arith.maxsi %a0, %a0 : i32", "i32"), "i32")
    assert combines_to_itself(same_side, [frozenset(("5",))])
    sums = "    %m = arith.addf %a0, %b0 : f32\n    %n = arith.addi %a1, %b1 : i32"
    both = combine_of(f"{sums}\n    tt.reduce.return %m, %n : f32, i32", "f32", "i32")
    assert combines_to_itself(both, [frozenset(("0.0", "nan")), ZERO])
    assert not combines_to_itself(both, [frozenset(("0.0",)), frozenset("1")])
