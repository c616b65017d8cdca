"""The three little decorators agree with Python, and say what they do not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from decorator_jits.expressions import Argument, Constant, Operation
from decorator_jits.from_bytecode import bytecodejit
from decorator_jits.from_source import astjit
from decorator_jits.from_trace import tracejit

EXAMPLES = Path(__file__).parents[2] / "examples"


def one_expression(a, b, c, d):
    return (a + d) * (10 - c) + b + d / c


def with_names(a, b, c, d):
    e = a * b
    f = 2.5 - e
    e = f / c
    return e * d - f


DECORATORS = [astjit, bytecodejit, tracejit]
FUNCTIONS = [one_expression, with_names]


@pytest.mark.parametrize("jit", DECORATORS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_python(jit: Any, function: Callable[..., float]) -> None:
    for arguments in ((2, 16, 3, 4), (-1.5, 0.25, 7, 0), (1e300, 1e10, -2, 5)):
        assert jit(function)(*arguments) == function(*arguments)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_all_three_see_the_same_tree(function: Callable[..., float]) -> None:
    trees = {jit(function).compiled().tree for jit in DECORATORS}
    assert len(trees) == 1


def test_a_tree_and_its_text() -> None:
    compiled = tracejit(lambda a, b: 2 * a - b).compiled()
    assert compiled.tree == Operation("-", Operation("*", Constant(2.0), Argument(0)), Argument(1))
    assert compiled.text.splitlines()[1] == "  %v0 = fmul double 0x4000000000000000, %a0"


def test_python_runs_while_tracing() -> None:
    def polynomial(x, y):
        total = 0
        for factor in (1, 2, 3):
            total = total * x + factor * y
        return total

    assert tracejit(polynomial)(2, 5) == polynomial(2, 5)
    with pytest.raises(SyntaxError):
        astjit(polynomial)(2, 5)
    with pytest.raises(SyntaxError, match="is not known here"):
        bytecodejit(polynomial)(2, 5)


def test_a_trace_cannot_choose() -> None:
    with pytest.raises(TypeError, match="both ways"):
        tracejit(lambda a: 1 if a - 1 else 2)(1)


def test_it_runs_as_a_program() -> None:
    command = [sys.executable, str(EXAMPLES / "decorator_jits")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert [line.split()[-1] for line in printed.splitlines()[:3]] == ["59.333333333333336"] * 3
    assert "define double @f(" in printed


def test_it_is_short() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in (EXAMPLES / "decorator_jits").glob("*.py"))
    assert lines <= 300
