"""The type of a constant is its value; conditions that are no booleans."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

FRONTENDS = pytest.mark.parametrize("frontend", ["ast", "bytecode"])


@FRONTENDS
@pytest.mark.parametrize("literal", [10, 32.5, "text", True, (5, 6, (7, 8))])
def test_constants(frontend: str, literal: Any) -> None:
    def kernel(given: tl.constexpr, pair, expected: tl.constexpr):
        tl.static_assert(given.type == expected)
        tl.static_assert(pair[1].type == tl.constexpr_type(1))
        tl.static_assert(pair.type == tl.tuple_type([tl.int32, tl.constexpr_type(1)]))

    tw.jit(kernel, frontend=frontend).warmup(literal, (2, 1), tl.constexpr_type(literal), grid=(1,))


def test_a_variable_that_is_annotated_as_constant() -> None:
    @tw.jit
    def kernel(given: tl.constexpr):
        mine: tl.constexpr = given
        tl.static_assert(mine.type == tl.constexpr_type(3))

    kernel.warmup(3, grid=(1,))


@FRONTENDS
def test_a_variable_has_a_run_time_type(frontend: str) -> None:
    def kernel(given: tl.constexpr):
        variable = given
        tl.static_assert(variable.type == tl.int32)

    tw.jit(kernel, frontend=frontend).warmup(3, grid=(1,))


def test_on_the_host() -> None:
    assert tl.constexpr(3).type == tl.constexpr_type(3) != tl.constexpr_type(4)
    assert tl.constexpr(tl.float32).type.mangle() == "cfp32"
    assert repr(tl.tuple([1, tl.constexpr("a")]).type) == "[constexpr_type[1],constexpr_type[a]]"


def test_logical_operators_of_the_host_give_an_operand_as_those_of_python() -> None:
    zero, three = tl.constexpr(0), tl.constexpr(3)
    assert [zero.logical_or(three).value, three.logical_or(4).value] == [3, 3]
    assert [zero.logical_and(three).value, three.logical_and(4).value] == [0, 4]


@pytest.mark.parametrize("options", [{}, {"frontend": "trace"}, {"interpret": True}], ids=["read", "traced", "run"])
def test_a_condition_that_is_not_boolean(options: dict[str, Any]) -> None:
    def kernel(x):
        tl.store(x, tl.where(tl.load(x), 1.0, 2.0))

    x = np.array([5], np.float32)
    with pytest.warns(UserWarning, match=r"tl\.where with a condition of fp32"):
        tw.jit(kernel, **options)[(1,)](x)
    assert x[0] == 1


def test_a_boolean_condition_is_not_warned_of() -> None:
    @tw.jit
    def kernel(x):
        tl.store(x, tl.where(tl.load(x) > 3, 1.0, 2.0))
        tl.store(x, tl.where(True, 1.0, 2.0))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[(1,)](np.array([5], np.float32))
