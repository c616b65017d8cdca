"""The texts that functions become: TTIR on scalars, and LLVM IR on vectors."""

from __future__ import annotations

from collections.abc import Callable

import tilewright as tw
from tilewright.ir.printer import print_op
from tilewright.vectorizing.kinds import WEAK_INT, Kind
from tilewright.vectorizing.program import make_program


def some_expr(a, b, c):
    return b / (a + 2) - c * (b - a)


def halvings(x, least):
    steps = 0
    while x > least:
        x = x / 2
        steps += 1
    return steps if steps > 1 else -1


def test_ttir(golden: Callable[[str, str], None]) -> None:
    numbers = make_program(some_expr, (WEAK_INT,) * 3, exact=True)
    arrays = make_program(some_expr, (Kind("float32"), Kind("int8"), WEAK_INT))
    loop = make_program(halvings, (Kind("float32"), WEAK_INT))
    parts = [f"// {program.result}\n{print_op(program.module)}" for program in (numbers, arrays, loop)]
    golden("\n".join(parts), "vectorize/programs.ttir")


def test_front_ends_agree() -> None:
    for function, kinds in ((some_expr, (Kind("int32"),) * 3), (halvings, (Kind("float64"), WEAK_INT))):
        texts = {print_op(make_program(function, kinds, frontend=name).module) for name in ("ast", "bytecode")}
        assert len(texts) == 1
    traced = make_program(some_expr, (Kind("int32"),) * 3, frontend="trace")
    assert print_op(traced.module) == print_op(make_program(some_expr, (Kind("int32"),) * 3).module)


def test_lowered_shows_both() -> None:
    found = tw.vectorize(some_expr).lowered("float32", "float32", float)
    assert "tt.func public @some_expr(%arg0: f32, %arg1: f32, %arg2: f64)" in found["ttir"]
    assert "define i32 @span(" in found["llir"]
    assert "define i32 @scalar(" in tw.vectorize(some_expr).lowered(int, int, float)["llir"]
