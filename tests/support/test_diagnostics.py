"""Diagnostics render as pictures with a caret, a call chain and help."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tilewright.support.diagnostics import (
    CompilationError,
    CompileTimeAssertionFailure,
    Diagnostic,
    InternalError,
    NotSupported,
    SemanticError,
    StaticAssertionFailed,
    Unsupported,
    located,
    render,
)
from tilewright.support.source import Span


class NotBroadcastable(Diagnostic):
    title = "shapes do not broadcast"
    label = "{left} and {right} differ in dimension {axis}"
    help = "make dimension {axis} of one side 1"
    left: tuple[int, ...]
    right: tuple[int, ...]
    axis: int


MISMATCH = NotBroadcastable((128, 64), (128, 32), 1)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text("@jit\ndef helper(a, b):\n    return a + b\n\n@jit\ndef k(x, y):\n    z = helper(x, y)\n")
    return str(path)


def test_picture_with_call_chain(file: str) -> None:
    call = Span(file, 7, 9, 7, 21)
    text = render(MISMATCH, Span(file, 3, 12, 3, 17, call)).replace(file, "$FILE")
    assert text == (
        "error: shapes do not broadcast\n"
        " --> $FILE:3:12\n"
        "3 |     return a + b\n"
        "  |            ^^^^^ (128, 64) and (128, 32) differ in dimension 1\n"
        " --> $FILE:7:9\n"
        "7 |     z = helper(x, y)\n"
        "  |         ^^^^^^^^^^^^ called from here\n"
        "help: make dimension 1 of one side 1"
    )


def test_equal_ones_are_one_of_a_set() -> None:
    assert {MISMATCH, NotBroadcastable((128, 64), (128, 32), 1)} == {MISMATCH}
    assert NotBroadcastable((128, 64), (128, 32), 0) != MISMATCH


def test_without_a_span_title_and_label_share_a_line() -> None:
    assert str(SemanticError(MISMATCH)) == "shapes do not broadcast: (128, 64) and (128, 32) differ in dimension 1"
    assert render(MISMATCH).startswith("error: shapes do not broadcast: (128")


def test_unreadable_file_still_shows_the_label() -> None:
    assert "  | (128, 64) and" in render(MISMATCH, Span("/nowhere.py", 3, 1))


def test_carets_stand_under_wide_characters(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_text("é = '漢字' + x\n", encoding="utf-8")
    carets = render(MISMATCH, Span(str(path), 1, 12, 1, 13)).splitlines()[3]
    assert carets.index("^") - len("  | ") == 13


def test_exit_decides_the_exception_class() -> None:
    assert type(located(MISMATCH, None)) is CompilationError
    assert type(located(NotSupported("tl.async_task"), None)) is Unsupported
    assert type(located(StaticAssertionFailed("no"), None)) is CompileTimeAssertionFailure


def test_errors_survive_pickling() -> None:
    error = located(NotSupported("inline PTX"), Span("k.py", 1, 2))
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (Unsupported, str(error))


def test_errors_have_the_attributes_of_tritons(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text("first\nsecond line\n")
    error = located(MISMATCH, Span(str(path), 2, 8))
    assert error.node is not None
    assert (error.node.lineno, error.node.col_offset) == (2, 7)
    assert error.src == "first\nsecond line\n"
    assert error.message == str(error)
    assert error.error_message == MISMATCH.headline
    bare = located(MISMATCH, None)
    assert (bare.node, bare.src) == (None, None)


def test_internal_error_shows_the_op() -> None:
    assert "%0 = tt.load" in str(InternalError("no lowering", "%0 = tt.load %p"))


def test_call_chains_grow_at_the_outer_end() -> None:
    inner, middle, outer = (Span("k.py", line, 1) for line in (1, 2, 3))
    assert [span.line for span in inner.called(middle).called(outer).chain()] == [1, 2, 3]
