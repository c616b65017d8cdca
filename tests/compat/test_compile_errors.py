"""Compile errors in the form that programs written for Triton look for."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compat.compile_errors import IncompatibleTypeErrorImpl, as_triton
from tilewright.support.diagnostics import present_errors


@pytest.fixture(autouse=True)
def triton_style() -> Iterator[None]:
    present_errors(by=as_triton)
    yield
    present_errors(by=None)


@tw.jit
def undefined():
    unknown_name  # noqa: B018, F821 - unknown on purpose


@tw.jit
def two_shapes(n):
    if n == 0:
        return tl.arange(0, 4)
    return tl.arange(0, 8)


def error_of(function: Any, **signature: str) -> tw.CompilationError:
    with pytest.raises(tw.CompilationError) as caught:
        tw.compile(tw.ASTSource(fn=function, signature=signature, constexprs={}))
    return caught.value


def test_places_count_from_the_function() -> None:
    @tw.jit
    def kernel():
        _ = 0 + "a"

    error = error_of(kernel)
    place, _, text = str(error).partition("\n")
    assert place.startswith(f"--> {__file__}:")
    assert text.startswith('at 2:8:\ndef kernel():\n    _ = 0 + "a"\n        ^\n')
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
    SIZE: tl.constexpr = 8
    tl.static_assert(SIZE == 8)


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (returns_in_loop, "Cannot have `return` statements inside `while` or `for` statements in triton"),
        (declares_twice, "SIZE is already defined. constexpr cannot be reassigned."),
    ],
)
def test_sentences_that_programs_look_for(kernel: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_LEAVE_LOOPS", "0")  # as `tilewright run` has it
    assert sentence in str(error_of(kernel, n="i32"))


def cause_of(line: str) -> BaseException | None:
    """The last cause of the error that a kernel of one line ends with."""
    text = f"@tw.jit\ndef kernel(p, n, x):\n    {line}\n"
    linecache.cache[f"<{line}>"] = (len(text), None, text.splitlines(keepends=True), f"<{line}>")
    names: dict[str, Any] = {"tl": tl, "tw": tw}
    exec(compile(text, f"<{line}>", "exec"), names)
    return error_of(names["kernel"], p="*fp32", n="i32", x="fp32").__cause__


@pytest.mark.quick
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("tl.expand_dims(None, -1)", TypeError),
        ("tl.exp('x')", TypeError),
        ("tl.atomic_add(p, 'x')", TypeError),
        ("tl.exp()", TypeError),
        ("tl.load(p, unknown=3)", TypeError),
        ("p + p", TypeError),
        ("x // 2", TypeError),
        ("tl.zeros((n,), tl.float32)", TypeError),
        ("x & 1", IncompatibleTypeErrorImpl),
        ("p * 2", IncompatibleTypeErrorImpl),
        ("p.to(tl.float32)", AssertionError),
        ("n.to(tl.float8e5)", AssertionError),
        ("tl.dot(n, n)", AssertionError),
        ("tl.device_print(n)", AssertionError),
        ("tl.full((4,), tl.arange(0, 4), tl.float32)", AssertionError),
        ("n and n", ValueError),
        ("tl.sqrt(n)", ValueError),
        ("tl.program_id(3)", ValueError),
        ("unknown", None),
        ("len(3)", None),
        ("while True: n += 1", None),
        pytest.param("kernel[1](p, n, x)", None, marks=pytest.mark.slow),
    ],
)
def test_the_last_cause_is_of_tritons_class(line: str, kind: type[Exception] | None) -> None:
    assert type(cause_of(line)) is (kind or type(None))


def test_the_last_frame_is_in_the_file_with_tritons_name() -> None:
    """The language's own frames are not the program's."""
    cause = cause_of("tl.program_id(3)")
    assert cause is not None
    frames = traceback.extract_tb(cause.__traceback__)
    assert [Path(frame.filename).name for frame in frames] == ["core.py"]
