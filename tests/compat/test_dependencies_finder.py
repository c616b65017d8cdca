"""`DependenciesFinder` as Triton has it, and the keys that programs make of bound arguments."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compat.signatures import DependenciesFinder, compute_cache_key, create_function_from_signature

SIZE = tl.constexpr(4)


@tw.jit
def callee(x):
    return x + SIZE


@tw.jit
def kernel(out, n=SIZE):
    tl.store(out, callee(n))


def found(function: Any, source: str | None = None) -> DependenciesFinder:
    nonlocals = inspect.getclosurevars(function.fn).nonlocals
    finder = DependenciesFinder(function._fn_name, function.__globals__, nonlocals, source or function.src)
    finder.visit(function.parse() if source is None else ast.parse(source))
    return finder


def test_digest_follows_text_callees_and_constants() -> None:
    global SIZE
    key = found(kernel).ret
    assert len(key) == 64
    assert found(kernel).ret == key
    assert found(kernel, kernel.src + "  # a comment").ret != key
    text = callee.src
    callee._unsafe_update_src(text.replace("+", "-"))
    assert found(kernel).ret != key
    callee._unsafe_update_src(text)
    assert found(kernel).ret == key
    SIZE = tl.constexpr(5)
    callee.hash = None
    try:
        assert found(kernel).ret != key
    finally:
        SIZE = tl.constexpr(4)
        callee.hash = None


def test_values_that_were_used() -> None:
    used = found(kernel).used_global_vals
    assert {name: value for (name, _), (value, _) in used.items()} == {"SIZE": 4}
    assert all(namespace is globals() for _, namespace in used.values())


def test_variables_of_enclosing_functions() -> None:
    def make(value: Any) -> Any:
        @tw.jit
        def inner(out):
            tl.store(out, value)

        return inner

    one, two = make(tl.constexpr(1)), make(tl.constexpr(2))
    assert found(one).ret != found(two).ret
    assert [value for value, _ in found(one).used_global_vals.values()] == [1]


def test_functions_of_other_packages_are_refused() -> None:
    @tw.jit
    def kernel(out):
        tl.store(out, np.prod((2, 3)))

    with pytest.raises(RuntimeError, match="a function of another package"):
        found(kernel)


def test_bound_arguments_and_their_key() -> None:
    binder = create_function_from_signature(kernel.signature, kernel.params, None)
    assert binder(1, num_warps=2) == ({"out": 1, "n": SIZE}, [("constexpr", 1), ("constexpr", 4)], {"num_warps": 2})
    kept: dict[Any, str] = {}
    key = compute_cache_key(kept, [("i32", "D"), ("constexpr", callee), ("tuple", (1, callee))], {})
    assert callee.cache_key in key
    assert compute_cache_key(kept, [("i32", "D"), ("constexpr", callee), ("tuple", (1, callee))], {}) is key
    assert compute_cache_key(kept, [("i32", "")], {}) != key
