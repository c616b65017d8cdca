"""Compile errors in the form that programs written for Triton look for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compat.compile_errors import as_triton
from tilewright.support.diagnostics import present_errors


@pytest.fixture(autouse=True)
def triton_style() -> Iterator[None]:
    present_errors(by=as_triton)
    yield
    present_errors(by=None)


@tw.jit
def undefined():
    unknown_name  # noqa: B018, F821


@tw.jit
def two_shapes(n):
    if n == 0:
        return tl.arange(0, 4)
    else:  # noqa: RET505
        return tl.arange(0, 8)


def error_of(function: Any, **signature: str) -> tw.CompilationError:
    with pytest.raises(tw.CompilationError) as caught:
        tw.compile(tw.ASTSource(fn=function, signature=signature, constexprs={}))
    return caught.value


def test_places_count_from_the_function() -> None:
    @tw.jit
    def kernel():
        0 + "a"  # noqa: B018

    error = error_of(kernel)
    place, _, text = str(error).partition("\n")
    assert place.startswith(f"--> {__file__}:")
    assert text.startswith('at 2:4:\ndef kernel():\n    0 + "a"  # noqa: B018\n    ^\n')
    assert error.__cause__ is None


def test_each_function_has_its_error() -> None:
    @tw.jit
    def kernel():
        # the call is in line 3
        undefined()

    error = error_of(kernel)
    assert "\nat 3:4:\n" in str(error)
    assert "\nat 2:4:\ndef undefined():\n" in str(error.__cause__)


def test_functions_as_a_whole() -> None:
    @tw.jit
    def kernel(n):
        two_shapes(n)

    error = error_of(kernel, n="i32")
    assert "\nat 2:4:\n" in str(error)
    assert ("\nat 1:0:\ndef two_shapes(n):\n^\nReturn type mismatch: ") in str(error.__cause__)


def test_the_last_cause_is_the_sentence() -> None:
    @tw.jit
    def kernel():
        tl.arange(2, 7)

    error = error_of(kernel)
    assert str(error.__cause__) == "arange's range must be a power of 2"
    assert error.error_message == str(error.__cause__)


def test_our_own_form_is_the_usual_one() -> None:
    @tw.jit
    def kernel():
        tl.arange(2, 7)

    present_errors(by=None)
    error = error_of(kernel)
    assert str(error).startswith("error: the length of a range must be a power of two\n  --> ")
    assert "2 to 7 are 5 numbers" in str(error)


@tw.jit
def returns_in_loop(n):
    while n > 0:
        return


@tw.jit
def declares_twice(n):
    SIZE: tl.constexpr = 4
    SIZE: tl.constexpr = 8  # noqa: F841


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (returns_in_loop, "Cannot have `return` statements inside `while` or `for` statements in triton"),
        (declares_twice, "SIZE is already defined. constexpr cannot be reassigned."),
    ],
)
def test_sentences_that_programs_look_for(kernel: Any, sentence: str) -> None:
    assert sentence in str(error_of(kernel, n="i32"))
