"""Python functions and context managers that extend the language, written as Triton's are."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.compat.core_shims import builtin

WAYS = pytest.mark.parametrize(
    "options", [{}, {"frontend": "bytecode"}, {"interpret": True}], ids=["ast", "bytecode", "run"]
)
LEFT: list[str] = []


@builtin
def largest(x: Any, y: Any, _semantic: Any = None) -> Any:
    """A function as libraries have it: it hands on what it got."""
    return tl.maximum(x, tl.to_tensor(y, _semantic=_semantic), _semantic=_semantic)


def doubled(x: Any, *, _semantic: Any = None) -> Any:
    return x + x if _semantic is None else _semantic.add(x, x, True)


doubled.__triton_builtin__ = True


class Shifted:
    """A context manager whose value is a tile."""

    __triton_builtin__ = True

    def __init__(self, x: Any, by: int = 1, _semantic: Any = None) -> None:
        self.x, self.by = x, by

    def __enter__(self, _semantic: Any = None) -> Any:
        return tl.add(self.x, self.by, _semantic=_semantic)

    def __exit__(self, kind: object, value: object, trace: object, _semantic: Any = None) -> None:
        LEFT.append(f"{tl.constexpr(self.by).value}")


def functions(out, n):
    tl.store(out, largest(n, 7))
    tl.store(out + 1, doubled(n).to(tl.int32))


def managers(out, n):
    with Shifted(n) as a, Shifted(a, 10) as b:
        if n > 2 and n < 9:
            tl.store(out, b)
    with Shifted(n, 100):
        tl.store(out + 1, n)


def launched(kernel: Any, options: dict[str, Any]) -> list[int]:
    out = np.zeros(2, np.int32)
    tw.jit(kernel, **options)[(1,)](out, 5)
    return list(out)


@WAYS
def test_functions_get_what_they_hand_on(options: dict[str, Any]) -> None:
    assert launched(functions, options) == [7, 10]


@WAYS
def test_managers_are_left_in_the_opposite_order(options: dict[str, Any]) -> None:
    LEFT.clear()
    assert launched(managers, options) == [16, 5]
    assert LEFT == ["10", "1", "100"]


class Activation(Enum):
    RELU = 1


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
def test_constants_are_marked(frontend: str) -> None:
    """Arguments are marked as Triton 3.5.1 and 3.9.0 mark them when they compile for a GPU that is not there."""
    seen: list[str] = []

    @builtin
    def kinds(*values: Any, _semantic: Any = None, **named: Any) -> Any:
        seen.extend(_kind(value) for value in [*values, *named.values()])
        return tl.constexpr(2), (values[0], tl.constexpr(None))

    @tw.jit
    def helper(dtype, function):
        kinds(dtype, function)
        return 1

    @tw.jit
    def kernel(out, n, D: tl.constexpr, A: tl.constexpr):
        literals = kinds(3, 2.5, True, None, "s", k=4)
        kinds(tl.int8, D, A, helper, out.dtype)
        kinds((1, n), [1, 2], n, out.shape)
        m = 3
        kinds(m)
        helper(tl.int8, helper)
        tl.static_assert(literals[1][1] is None)
        tl.store(out, tl.zeros((2,), tl.int32).to(D).to(tl.int32).sum(0) + literals[0] + literals[1][0])

    out = np.zeros(1, np.int32)
    tw.jit(kernel.fn, frontend=frontend)[(1,)](out, 5, tl.int16, Activation.RELU)
    assert list(out) == [5]
    assert seen == [
        *("constexpr 3", "constexpr 2.5", "constexpr True", "constexpr None", "constexpr s", "constexpr 4"),
        *("dtype", "constexpr int16", "constexpr Activation.RELU", "JITFunction", "pointer_type"),
        *("tuple of constexpr 1, tensor", "tuple of constexpr 1, constexpr 2", "tensor", "tuple of "),
        "tensor",
        *("constexpr int8", "constexpr helper"),
    ]


def _kind(value: Any) -> str:
    if isinstance(value, tl.tuple):
        return f"tuple of {', '.join(map(_kind, value))}"
    name = type(value).__name__
    if not isinstance(value, tl.constexpr):
        return name
    return f"constexpr {getattr(value.value, '__name__', value.value)}"


def test_a_tile_is_no_context_manager() -> None:
    @tw.jit
    def kernel(out):
        with out as x:
            tl.store(x, 1)

    with pytest.raises(tw.CompilationError, match="no attribute `__enter__`"):
        kernel.warmup(np.zeros(1, np.int32), grid=(1,))


def test_the_block_is_not_left_by_return() -> None:
    @tw.jit
    def kernel(out):
        with Shifted(out, 0):
            return

    with pytest.raises(tw.CompilationError, match="`return` inside `with`"):
        kernel.warmup(np.zeros(1, np.int32), grid=(1,))


def test_there_is_no_builder() -> None:
    @builtin
    def built(x: Any, _semantic: Any = None) -> Any:
        return _semantic.builder.create_add(x.handle, x.handle)

    @tw.jit
    def kernel(out):
        tl.store(out, built(1))

    with pytest.raises(tw.CompilationError, match=r"`_semantic\.builder` is not supported"):
        kernel.warmup(np.zeros(1, np.int32), grid=(1,))


def test_assertions_count_while_debugging() -> None:
    @tw.jit
    def kernel(out, N: tl.constexpr):
        assert N > 3, "too few"
        tl.store(out, N)

    out = np.zeros(1, np.int32)
    kernel[(1,)](out, N=2)
    assert out == [2]
    with pytest.raises(tw.CompilationError, match="too few"):
        kernel[(1,)](out, N=2, debug=True)


def test_text_of_tiles_is_not_known() -> None:
    @tw.jit
    def kernel(out, n):
        tl.static_print(f"{n}")

    with pytest.raises(tw.CompilationError, match="an f-string of run-time values"):
        kernel.warmup(np.zeros(1, np.int32), 5, grid=(1,))


@tw.jit
def sizes(out):
    tl.store(out, tl.extra.cuda.num_threads())
    tl.store(out + 1, tl.extra.cuda.num_warps())


def test_how_many_threads_a_program_has() -> None:
    out = np.zeros(2, np.int32)
    sizes[(1,)](out)
    assert list(out) == [1, 1]
    with tw.simulate("90"):
        sizes[(1,)](out, num_warps=8)
    assert list(out) == [256, 8]
