"""Python's numbers in, what Python computes out."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from expressions import function
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG

FRONTENDS = ("ast", "bytecode", "trace")


def some_expr(a, b, c):
    return b / (a + 2) - c * (b - a)


def use_locals(a, b, c):
    x = a + 2
    y = b - a
    z = c * x
    return y / x - z


def use_loop(a, b, c):
    result = 0
    for i in range(1, 11):
        result += i
    return result + b * c


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("fn", [some_expr, use_locals, use_loop])
def test_the_functions_of_the_document(fn: Any, frontend: str) -> None:
    ours = tw.vectorize(fn, frontend=frontend)
    for arguments in ((2, 16, 3), (2, 8, 11), (10, 2, 3), (2.5, 16, 3), (True, 2, 3.0)):
        for _ in range(2):  # the second time natively
            found, expected = ours(*arguments), fn(*arguments)
            assert (found, type(found)) == (expected, type(expected))


NUMBERS = st.one_of(st.integers(-(2**65), 2**65), st.integers(-9, 9), st.floats(), st.floats(-4, 4), st.booleans())
OPERATORS = ("a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a ** b", "a == b", "a < b", "a >= b")
OTHERS = ("a & b", "a << b", "a >> b", "~a", "-a", "abs(a)", "min(a, b)", "a and b", "a or b", "not a", "int(a) + 1")
OTHERS += ("divmod(a, b)[0]", "divmod(a, b)[1]")
FUNCTIONS = {text: tw.vectorize(function(text)) for text in (*OPERATORS, *OTHERS)}


def agree(text: str, a: Any, b: Any) -> None:
    if "**" in text and (abs(a) > 99 or abs(b) > 99):
        return
    if "<<" in text and abs(b) > 99:
        return
    ours = FUNCTIONS[text]
    try:
        expected = ours.fn(a, b)
    except (ArithmeticError, TypeError, ValueError) as error:
        with pytest.raises((type(error), tw.CompilationError)):
            ours(a, b)
        return
    if isinstance(expected, int | float) and type(a) is type(b) is int and abs(expected) > 2**53 and "/ b" in text:
        return  # rounded twice
    found = ours(a, b)
    both_nan = found != found and expected != expected
    assert both_nan or found == expected or found == pytest.approx(expected, rel=1e-15), (text, a, b)
    unified = " and " in text or " or " in text or "min" in text  # one kind for both
    assert unified or type(found) is type(expected), (text, a, b, found, expected)


@pytest.mark.parametrize("text", FUNCTIONS)
def test_examples(text: str) -> None:
    for a, b in ((7, 2), (-7, 2), (7, -2), (2**62, 2), (2**63, 1), (7.5, -2.0), (1, 0), (0.0, 0.0), (True, 3)):
        agree(text, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("count", [800, pytest.param(3000, marks=LONG)])
def test_operators_agree_with_python(count: int) -> None:
    settings(max_examples=count, deadline=None)(given(st.sampled_from(tuple(FUNCTIONS)), NUMBERS, NUMBERS)(agree))()


def test_errors_are_those_of_python() -> None:
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        tw.vectorize(some_expr)(-2, 1, 1)
    root = tw.vectorize(function("math.sqrt(a)", "a"))
    assert root(2.25) == 1.5
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        root(-1)
    with pytest.raises(OverflowError):
        tw.vectorize(function("math.exp(a)", "a"))(1000)


def test_large_integers_are_exact() -> None:
    multiply = tw.vectorize(function("a * b"))
    assert multiply(2**40, 2**40) == 2**80
    assert multiply(2**70, 3) == 3 * 2**70
    assert multiply(-(2**63), 1) == -(2**63)


def test_math_functions_of_all_three_libraries() -> None:
    text = "math.exp(a) + np.exp(a) + tl.exp(a)"
    for frontend in FRONTENDS:
        ours = tw.vectorize(function(text, "a", tl=tl), frontend=frontend)
        assert ours(0.5) == pytest.approx(3 * math.exp(0.5), rel=1e-15)
        assert ours(np.array([0.5], np.float32))[0] == pytest.approx(3 * math.exp(0.5), rel=1e-6)


@pytest.mark.parametrize("text", ["math.fabs(a)", "math.fmod(a, 5)", "math.ceil(a)", "math.trunc(a)", "round(a)"])
def test_functions_of_math_give_the_kind_of_python(text: str) -> None:
    plain = function(text, "a")
    for a in (7, -7, True, 2.5, 2**62):
        found, expected = tw.vectorize(plain)(a), plain(a)
        assert (found, type(found)) == (expected, type(expected)), a


@pytest.mark.parametrize(
    "text",
    ["x + np.maximum(a, 1)", "x * np.add(a, True)", "x - np.where(a > 2, a, 1)", "x & np.invert(a)", "x + np.isnan(a)"],
)
def test_functions_of_numpy_make_numbers_of_numpy_of_those_of_python(text: str) -> None:
    plain = function(text, "x, a")
    for x, a in itertools.product((np.arange(4, dtype=np.int8), np.arange(4, dtype=np.uint16)), (3, True)):
        found, expected = tw.vectorize(plain)(x, a), plain(x, a)
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()


def test_round_of_numpy_stays_a_float() -> None:
    assert type(tw.vectorize(function("np.round(a)", "a"))(2.5)) is float


def test_angles_of_float16_are_rounded_once() -> None:
    x = np.arange(-128, 128).astype(np.float16)
    assert (tw.vectorize(function("np.deg2rad(a)", "a"))(x) == np.deg2rad(x)).all()
