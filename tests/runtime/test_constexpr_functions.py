"""Functions that run while kernels are compiled: part of their key, methods, refused dependencies."""

from __future__ import annotations

import inspect
import math
import os
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.callable import must_use_result
from tilewright.runtime.dependencies import dependencies

FACTOR = 3
FRONTENDS = pytest.mark.parametrize("frontend", ["ast", "bytecode", "trace"])


@tw.constexpr_function
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@tw.constexpr_function
def scaled(n, by=2):
    return plain(n) * by * FACTOR


def plain(n):
    return int(math.log2(n))


@tw.constexpr_function
def halves(n):
    return (n // 2, n - n // 2)


@tw.constexpr_function
def element_of(tile):
    return tile.dtype


@tw.jit
def called(out, n):
    tl.store(out, n + factorial(4))


@tw.jit
def kernel(out, N: tl.constexpr, FN: tl.constexpr):
    first, second = halves(N + 1)
    tl.store(out, scaled(N) + FN(N))
    tl.store(out + 1, tl.full((), first * 100 + second, element_of(tl.load(out))))
    called(out + 2, N)


@pytest.fixture(autouse=True)
def factor() -> Iterator[None]:
    yield
    globals()["FACTOR"] = 3


def launched(kernel: Any, *args: Any) -> list[int]:
    out = np.zeros(3, np.int32)
    kernel[(1,)](out, *args)
    return out.tolist()


def test_on_the_host_it_is_the_function_with_constants_unwrapped() -> None:
    assert scaled(8) == scaled(tl.constexpr(8)) == 18
    assert type(scaled(tl.constexpr(8), by=tl.constexpr(2))) is int
    assert halves(5) == (2, 3)
    assert str(inspect.signature(scaled)) == "(n, by=2)"
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    assert tw.constexpr_function(scaled) is scaled
    assert repr(scaled) == f"ConstexprFunction({__name__}:scaled)"
    with pytest.raises(TypeError, match="marks Python functions, not a type"):
        tw.constexpr_function(int)


@FRONTENDS
def test_in_kernels(frontend: str) -> None:
    assert launched(tw.jit(kernel.fn, frontend=frontend), 8, factorial) == [18 + 40320, 405, 32]


def test_in_interpreted_kernels() -> None:
    assert launched(tw.jit(kernel.fn, interpret=True), 8, factorial) == [18 + 40320, 405, 32]


def test_the_key_of_a_kernel_changes_with_the_function() -> None:
    @tw.constexpr_function
    def flag():
        return 1

    @tw.jit
    def user(out):
        a: tl.constexpr = flag()
        tl.store(out, a)

    key, source = user.cache_key, flag.src
    assert source == "def flag():\n    return 1\n"
    assert launched(user)[0] == 1
    flag._unsafe_update_src(source.replace("1", "2"))
    user.hash = None
    assert user.cache_key != key
    assert launched(user)[0] == 2
    flag._unsafe_update_src(source)
    user.hash = None
    assert user.cache_key == key


def test_a_changed_function_that_was_an_argument() -> None:
    @tw.constexpr_function
    def given(n):
        return n + 1

    assert launched(kernel, 8, given)[0] == 18 + 9
    given._unsafe_update_src(given.src.replace("+ 1", "+ 2"))
    assert launched(kernel, 8, given)[0] == 18 + 10


def test_the_same_text_under_jit_has_another_key() -> None:
    def two():
        return 2

    assert tw.constexpr_function(two).cache_key != tw.jit(two).cache_key


def test_a_global_that_it_reads() -> None:
    global FACTOR
    bound = kernel[(1,)]
    bound(np.zeros(3, np.int32), 8, factorial)
    FACTOR = 4
    with pytest.raises(RuntimeError, match="Global variable FACTOR has changed"):
        bound(np.zeros(3, np.int32), 8, factorial)
    FACTOR = 3
    bound(np.zeros(3, np.int32), 8, factorial)


def test_without_source() -> None:
    names: dict[str, Any] = {"tw": tw}
    exec("@tw.constexpr_function\ndef three(): return 3", names)
    assert names["three"]() == 3
    assert len(names["three"].cache_key) > 60
    with pytest.raises(ValueError, match="source"):
        assert names["three"].src


class Shape:
    def __init__(self, n: int) -> None:
        self.n = n

    @tw.constexpr_function
    def doubled(self, by=1):
        return self.n * 2 * by

    @staticmethod
    @tw.constexpr_function
    def fixed(n):
        return n + 1


@tw.aggregate
class Square:
    x: tl.tensor
    side: tl.constexpr

    @tw.constexpr_function
    def __init__(self, x, side):
        self.x = x
        self.side = side

    @must_use_result
    @tw.constexpr_function
    def area(self):
        return self.side.value * self.side.value


SHAPE = tl.constexpr(Shape(5))


@tw.jit
def methods(out):
    tl.store(out, SHAPE.doubled(by=3))
    tl.store(out + 1, SHAPE.fixed(1))
    square = Square(tl.load(out), 4)
    tl.store(out + 2, square.area() + square.x * 0)


@tw.jit
def drops(out):
    Square(tl.load(out), 4).area()


def test_methods() -> None:
    assert Shape(3).doubled() == 6
    assert Shape.doubled.src.startswith("def doubled")
    assert launched(methods) == [30, 2, 16]
    with pytest.raises(tw.CompilationError, match="not being used"):
        launched(drops)


def test_the_key_changes_with_methods_of_classes() -> None:
    key = methods.cache_key
    for method, old, new in ((Shape.fixed, "+ 1", "+ 2"), (Shape.doubled, "* 2", "* 3"), (Square.area, "*", "+")):
        text = method.src
        method._unsafe_update_src(text.replace(old, new))
        methods.hash = None
        assert methods.cache_key != key
        method._unsafe_update_src(text)
        methods.hash = None
        assert methods.cache_key == key


@pytest.mark.quick
@pytest.mark.parametrize(
    "reader",
    [lambda: time.time(), lambda: os.getpid(), lambda: np.prod(3), lambda: inspect.stack(), lambda: np.log2(3)],
)
def test_functions_of_other_packages_are_refused(reader: Any) -> None:
    with pytest.raises(RuntimeError, match=r"<lambda> refers to \S+, a function of another package"):
        dependencies(reader)
    with pytest.raises(RuntimeError, match="no kernel can depend on"):
        assert tw.constexpr_function(reader).cache_key


@dataclass
class Record:
    n: int

    @property
    def text(self) -> str:
        return str(self.n)


RECORD = Record(3)


def test_classes_and_what_merely_computes_are_not() -> None:
    assert dependencies(lambda: (Record, RECORD, Fraction, Path("a")))
    assert dependencies(lambda: (max(1, 2), math.log2(4), np.float32(3), plain(4), tl.arange(0, 4)))
