"""Functions that kernels call and that are defined anew, as in a notebook: the next launch calls the new one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from native_launches import launches

import tilewright as tw
import tilewright.language as tl


def adding(number: int) -> Any:
    value = tl.constexpr(number)

    @tw.jit
    def add(x):
        return x + value

    return add


add = adding(1)


@tw.jit
def add_twice(x):
    return add(add(x))


@tw.jit
def kernel(out):
    tl.store(out, add_twice(0))


@pytest.fixture(autouse=True)
def _as_given() -> Iterator[None]:
    kept = {name: globals()[name] for name in ("add", "add_twice")}
    yield
    globals().update(kept)


def test_a_callee_of_a_callee() -> None:
    launch = launches(kernel)
    assert launch() == 2
    globals()["add"] = adding(5)
    assert [launch() for _ in range(3)] == [10, 10, 10]
    globals()["add"] = adding(1)
    assert launch() == 2


def test_all_on_the_way_are_read_anew() -> None:
    @tw.jit
    def add_thrice(x):
        return add(add(add(x)))

    launch = launches(kernel)
    globals().update(add_twice=add_thrice, add=adding(2))
    assert launch() == 6


def test_a_captured_callee() -> None:
    callee = adding(1)

    @tw.jit
    def closure(out):
        tl.store(out, callee(0))

    launch = launches(closure)
    callee = adding(7)
    assert launch() == 7


def test_a_callee_of_a_function_that_runs_while_compiling() -> None:
    numbers = tw.constexpr_function(lambda: 3)

    @tw.constexpr_function
    def number():
        return numbers()

    @tw.jit
    def closure(out):
        tl.store(out, number())

    launch = launches(closure)
    numbers = tw.constexpr_function(lambda: 4)
    assert launch() == 4


def test_what_calls_itself() -> None:
    def down(n: tl.constexpr):
        if n == 0:
            return 0
        return n + falling(n - 1)

    falling = tw.jit(down)

    @tw.jit
    def closure(out):
        tl.store(out, falling(3))

    launch = launches(closure)
    assert launch() == 6
    falling = adding(9)
    assert launch() == 12


def test_a_deleted_callee_is_still_called() -> None:
    launch = launches(kernel)
    del globals()["add"]
    assert launch() == 2


def test_nothing_is_compiled_again_while_names_mean_the_same() -> None:
    launch = launches(kernel)
    before = kernel.cache_key
    compiled = kernel.device_caches[0][0].copy()
    globals()["add"] = add
    launch()
    assert kernel.cache_key == before
    assert kernel.device_caches[0][0] == compiled


def test_launches_of_other_threads_have_one_or_the_other() -> None:
    launch, found, stop = launches(kernel), set[int](), threading.Event()

    def launching() -> None:
        bound, out = kernel[(1,)], np.zeros(1, np.int32)
        while not stop.is_set():
            bound(out)
            found.add(int(out[0]))

    thread = threading.Thread(target=launching)
    thread.start()
    try:
        for number in range(2, 12):
            globals()["add"] = adding(number)
            assert launch() == 2 * number
    finally:
        stop.set()
        thread.join()
    assert found <= {2 * number for number in range(1, 12)}
