"""Every operator and function on every dtype (and pair of dtypes) gives the dtype and the values that NumPy gives.

With both operands of one dtype machine code is as users get it. With others it is made at level 0 of LLVM's code
generator, in half the time: what these are about are dtypes, and which numbers are converted.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expressions import BINARY, DTYPES, FAMILIES, UNARY, assert_same, function, values

import tilewright as tw
from tilewright.backends.llvm.machine import compile_object
from tilewright.vectorizing import compile

REFUSED = (TypeError, tw.CompilationError)


def compare(plain: Callable[..., Any], ours: Callable[..., Any], *arguments: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = plain(*arguments)
        except (TypeError, OverflowError):
            with pytest.raises((TypeError, OverflowError, tw.CompilationError)):
                ours(*arguments)
            return
        assert_same(ours(*arguments), expected)


def second(expression: str, dtype: str) -> np.ndarray:
    """Values for the right operand: small ones where large ones have no meaning."""
    made = values(dtype, seed=1)
    limited = any(sign in expression for sign in ("<<", ">>", "**")) and made.dtype.kind in "iu"
    return np.abs(made.clip(0, 7)).astype(dtype) if limited else made


def compare_unary(expression: str, dtypes: tuple[str, ...]) -> None:
    plain = function(expression, "a")
    ours = tw.vectorize(plain)
    for dtype in dtypes:
        compare(plain, ours, values(dtype))


def compare_binary(expression: str, pairs: Any) -> None:
    plain = function(expression)
    ours = tw.vectorize(plain)
    for left, right in pairs:
        compare(plain, ours, values(left), second(expression, right))


def family_of(expression: str) -> int:
    return next(number for number, family in enumerate(FAMILIES) if expression in family)


def one_order(expression: str) -> Iterable[tuple[str, str]]:
    """Each two dtypes in one order, half of them in that of the list; the next family has them in the other."""
    for (left, a), (right, b) in itertools.permutations(enumerate(DTYPES), 2):
        if (left < right) == bool((left + right + family_of(expression)) % 2):
            yield a, b


def share_of(expression: str, cases: Iterable[Any]) -> Iterable[Any]:
    """The cases that an expression takes: the expressions of its family take all of them together."""
    family = FAMILIES[family_of(expression)]
    return itertools.islice(cases, family.index(expression), None, len(family))


@pytest.mark.parametrize("expression", ["a / 2", "a % 3", "~a", "np.exp(a)", "a ** 2"])
def test_unary_fast(expression: str) -> None:
    compare_unary(expression, ("bool", "int8", "uint16", "int64", "float16", "float32"))


@pytest.mark.parametrize("expression", ["a + b", "a // b", "a < b", "np.hypot(a, b)"])
def test_binary_fast(expression: str) -> None:
    compare_binary(expression, [("int8", "uint8"), ("int64", "uint64"), ("bool", "bool"), ("float32", "int64")])


@pytest.mark.slow
@pytest.mark.parametrize("expression", UNARY)
def test_unary(expression: str) -> None:
    compare_unary(expression, DTYPES)


@pytest.mark.slow
@pytest.mark.parametrize("expression", BINARY)
def test_binary(expression: str) -> None:
    compare_binary(expression, zip(DTYPES, DTYPES, strict=True))


@pytest.fixture
def quickly_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code of level 0, in a cache of its own."""
    monkeypatch.setattr(compile, "compile_object", partial(compile_object, opt=0))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(Path(os.environ["TRITON_CACHE_DIR"]) / "level 0"))


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_made")
@pytest.mark.parametrize("expression", BINARY)
def test_binary_of_two_dtypes(expression: str) -> None:
    """A share of the pairs for each expression: all expressions of a family together have every two dtypes."""
    compare_binary(expression, share_of(expression, one_order(expression)))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("quickly_made")
@pytest.mark.parametrize("expression", BINARY)
def test_binary_of_two_dtypes_in_both_orders(expression: str) -> None:
    compare_binary(expression, share_of(expression, itertools.permutations(DTYPES, 2)))


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_made")
@pytest.mark.parametrize("expression", BINARY)
def test_python_numbers_adapt_to_arrays(expression: str) -> None:
    """A share of dtypes and numbers for each expression."""
    plain = function(expression)
    ours = tw.vectorize(plain)
    for dtype, number in share_of(expression, itertools.product(DTYPES, (True, 2, 2.5))):
        if "**" in expression and dtype == "bool" and number == 2:
            continue  # NumPy squares then, depending on the value
        compare(plain, ours, values(dtype), number)
        compare(plain, ours, number, second(expression, dtype))


def test_int64_and_uint64_compare_exactly() -> None:
    signed = np.array([-1, 2**53 + 1, 2**63 - 1])
    unsigned = np.array([2**64 - 1, 2**53, 2**63 - 1], np.uint64)
    for expression in ("a < b", "a == b", "a > b"):
        plain = function(expression)
        assert_same(tw.vectorize(plain)(signed, unsigned), plain(signed, unsigned))


def test_a_python_integer_that_does_not_fit_is_refused() -> None:
    add = tw.vectorize(function("a + b"))
    with pytest.raises(OverflowError, match="out of bounds"):
        add(np.zeros(3, np.uint8), 300)
    with pytest.raises(tw.CompilationError, match="300 is out of bounds for uint8"):
        tw.vectorize(function("a + 300", "a"))(np.zeros(3, np.uint8))
    assert add(np.zeros(3, np.uint8), 255).tolist() == [255] * 3


def test_division_by_zero_warns_and_gives_zero() -> None:
    for expression in ("a // b", "a % b"):
        divide = tw.vectorize(function(expression))
        for _ in range(2):
            with pytest.warns(RuntimeWarning, match="divide by zero") as told:
                assert divide(np.array([7, 8, 9]), np.array([2, 0, 4]))[1] == 0
            assert told[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="divide by zero") as told:
        tw.vectorize(function("a // b")).reduce(np.array([7, 0, 4]))
    assert told[0].filename == __file__


def test_integers_to_negative_powers_are_refused() -> None:
    with pytest.raises(ValueError, match="negative integer powers"):
        tw.vectorize(function("a ** b"))(np.array([1, 2]), np.array([1, -1]))
