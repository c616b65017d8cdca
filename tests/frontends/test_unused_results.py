"""Functions marked `must_use_result`: a statement that drops their result is a mistake, for all front ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.callable import must_use_result

FRONTENDS = pytest.mark.parametrize("frontend", ["ast", "bytecode"])


@must_use_result("Cubes are for keeping.")
@tw.jit
def cube(x: Any) -> Any:
    return x * x * x


@tw.jit
def store(x: Any) -> Any:
    tl.store(x, 1.0)
    return x


@tw.aggregate
class Square:
    x: tl.tensor

    @must_use_result
    @tw.jit
    def area(self) -> Any:
        return self.x * self.x


def drops_in_a_loop(x: Any) -> None:
    for _ in range(2):
        cube(tl.load(x))


def drops_of_a_method(x: Any) -> None:
    square = Square(tl.load(x))
    square.area()


def uses(x: Any) -> None:
    store(x)
    square = Square(cube(tl.load(x) + 1.0))
    tl.store(x, square.area())
    y = cube(2.0) if tl.load(x) > 0 else cube(3.0)
    tl.store(x, y + tl.load(x))


@FRONTENDS
@pytest.mark.parametrize(
    ("kernel", "callee", "advice"),
    [
        (drops_in_a_loop, "cube", "Cubes are for keeping."),
        (drops_of_a_method, "square.area", "assign it to a variable"),
    ],
)
def test_a_dropped_result(kernel: Any, callee: str, advice: str, frontend: str) -> None:
    with pytest.raises(tw.CompilationError) as caught:
        tw.jit(kernel, frontend=frontend)[(1,)](np.zeros(1, np.float32))
    assert caught.value.error_message.startswith(f"The result of {callee} is not being used")
    assert advice in str(caught.value)


@FRONTENDS
def test_used_results(frontend: str) -> None:
    x = np.zeros(1, np.float32)
    tw.jit(uses, frontend=frontend)[(1,)](x)
    assert x[0] == 72.0


@must_use_result
@tw.constexpr_function
def two() -> int:
    return 2


def drops_a_constant(x: Any) -> None:
    two()


def uses_a_constant(x: Any) -> None:
    tl.store(x, cube(two()))


@pytest.mark.parametrize("options", [{"frontend": "trace"}, {"interpret": True}], ids=["traced", "interpreted"])
def test_kernels_that_run_in_python(options: dict[str, Any]) -> None:
    for kernel, callee in ((drops_in_a_loop, "cube"), (drops_a_constant, "two")):
        with pytest.raises(tw.CompilationError, match=f"The result of {callee} is not being used") as caught:
            tw.jit(kernel, **options)[(1,)](np.zeros(1, np.float32))
        assert caught.value.span is not None
        assert caught.value.span.line == kernel.__code__.co_firstlineno + (2 if callee == "cube" else 1)
    x = np.zeros(1, np.float32)
    tw.jit(uses_a_constant, **options)[(1,)](x)
    assert x[0] == 8.0
