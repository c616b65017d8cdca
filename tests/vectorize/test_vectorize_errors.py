"""The messages of each front end for functions that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mistakes
import numpy as np
import pytest

import tilewright as tw
from python_texts import as_in_3_11

X = np.array([0.5, 1.5, -2.5])


def message(function: Any, frontend: str) -> str:
    """The message that calling the function raises, without the folder of this file."""
    try:
        result = tw.vectorize(function, frontend=frontend)(X)
    except (tw.TilewrightError, TypeError, RecursionError, RuntimeError) as error:
        return as_in_3_11(f"{type(error).__name__}: {error}".replace(f"{Path(__file__).parent}/", ""))
    return f"no error: {result}"


@pytest.mark.parametrize("frontend", ["ast", "bytecode", "trace"])
def test_mistakes(frontend: str, golden: Callable[[str, str], None]) -> None:
    mistakes.LEAKED.clear()
    said = [f"# {function.__name__}\n{message(function, frontend)}\n" for function in mistakes.FUNCTIONS]
    golden("\n".join(said), f"vectorize/mistakes-{frontend}.err")


def test_declarations(golden: Callable[[str, str], None]) -> None:
    said = [f"# {function.__name__}\n{message(function, 'auto')}\n" for function in mistakes.DECLARATIONS]
    golden("\n".join(said), "vectorize/declarations.err")


def test_leaked_element() -> None:
    mistakes.LEAKED.clear()
    tw.vectorize(mistakes.keeps, frontend="trace")(X)
    with pytest.raises(tw.CompilationError, match="a value of another trace is used"):
        tw.vectorize(mistakes.uses_what_was_kept, frontend="trace")(X)


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="there is no front end 'x'"):
        tw.vectorize(mistakes.text, frontend="x")
    with pytest.raises(TypeError, match="takes a Python function, not a str"):
        tw.vectorize("x")
    identity = tw.vectorize(mistakes.one_argument)
    for value, said in (("a", "is a str"), (1j, "is a complex"), (np.zeros(2, "c8"), "complex numbers are not")):
        with pytest.raises(TypeError, match=said):
            identity(value)
    with pytest.raises(TypeError, match="is a masked array"):
        identity(np.ma.masked_array([1, 2], [True, False]))
    for dtype in ("U3", "M8[s]", "O"):
        with pytest.raises(TypeError, match="cannot be used in computations"):
            identity(np.zeros(2, dtype))


def deleted_below(x):
    y = x + 1
    if x > 0:
        y = x
    else:
        del y
    return y


def deleted_above(x):
    y = x + 1
    if x > 0:
        del y
    return y


def deleted_and_made_anew(x):
    y = x + 1
    if x > 0:
        del y
        y = x * 2
    return y


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
def test_deletion_on_one_side(frontend: str) -> None:
    for function in (deleted_above, deleted_below):
        assert "`y` may have no value here" in message(function, frontend)
        assert "it was deleted" in message(function, frontend)
    found = tw.vectorize(deleted_and_made_anew, frontend=frontend)(X)
    np.testing.assert_array_equal(found, np.where(X > 0, X * 2, X + 1))
