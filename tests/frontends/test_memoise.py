"""The HIR of a function is memoised as long as the function lives, and no longer."""

from __future__ import annotations

import gc
import weakref
from functools import wraps
from types import FunctionType

import pytest

from tilewright.frontends.choice import READERS


def new_function() -> FunctionType:
    def doubled(x):
        return x + x

    assert isinstance(doubled, FunctionType)
    return doubled


@pytest.mark.slow
@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("frontend", sorted(READERS))
def test_a_function_is_read_once_and_then_forgotten(frontend: str) -> None:
    function = new_function()
    found = READERS[frontend](function)
    assert READERS[frontend](function) is found
    gone = weakref.ref(function)
    del function, found
    gc.collect()
    assert gone() is None


def test_a_function_that_wraps_another_is_read_itself() -> None:
    inner = new_function()
    READERS["ast"](inner)

    @wraps(inner)
    def outer(x, y):
        return x + y

    assert isinstance(outer, FunctionType)
    assert [parameter.name for parameter in READERS["ast"](outer).parameters] == ["x", "y"]
