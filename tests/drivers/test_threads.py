"""Eight threads at once, as a Python without a global lock runs them: nothing crashes, and every result is right."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.drivers.cpu.launcher import is_native
from tilewright.runtime.drivers.cpu.native.structs import IS_FREE_THREADED

THREADS = 8
SCALE = tl.constexpr(2)
BIAS = tl.constexpr(3)


def at_once(work: Callable[[int], None], *, threads: int = THREADS) -> None:
    """Call `work` with 0, 1, 2, … in threads that start together; the first error of one is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


@tw.jit
def plus(x):
    return x + BIAS


def scaled(x_ptr, out_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, plus(x * K) * SCALE, mask=i < n)


def check(kernel: Any, number: int, turns: int = 40) -> None:
    """Launch a kernel like `scaled` with many kinds of arguments."""
    random = np.random.default_rng(number)
    for turn in range(turns):
        n, k, block = int(random.integers(1, 3000)), int(random.integers(1, 3)), int(2 ** random.integers(6, 8))
        x = random.integers(-99, 99, n).astype(np.int32 if turn % 2 else np.float32)
        out = np.zeros_like(x)
        kernel[(tw.cdiv(n, block),) if turn % 3 else [tw.cdiv(n, block)]](x, out, n, K=k, BLOCK=block)
        np.testing.assert_array_equal(out, (x * k + 3) * 2)


def test_one_kernel_compiled_first_by_all() -> None:
    kernel = tw.jit(scaled)
    at_once(lambda number: check(kernel, number))


def test_kernels_of_their_own() -> None:
    at_once(lambda number: check(tw.jit(scaled), number, 10))


def test_while_all_that_is_known_is_forgotten_again_and_again() -> None:
    kernel = tw.jit(scaled)
    check(kernel, 0, 10)
    done = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            while not done.wait(0.002):
                kernel.forget_launches()
        else:
            check(kernel, number)
            if number == 1:
                done.set()

    at_once(work)


def test_a_constant_outside_that_changes_meanwhile() -> None:
    names: dict[str, Any] = {"tl": tl, "VALUE": tl.constexpr(1)}
    exec("def kernel(out):\n    tl.store(out, VALUE)\n", names)
    kernel, deadline = tw.jit(names["kernel"]), time.monotonic() + 20

    def work(number: int) -> None:
        with pytest.raises(RuntimeError, match="Global variable VALUE has changed"):
            launch_until_it_changes(number)

    def launch_until_it_changes(number: int) -> None:
        out = np.zeros(1, np.int32)
        for turn in count():
            if number == 0 and turn == 100:
                names["VALUE"] = tl.constexpr(2)
            kernel[(1,)](out)
            assert out[0] == 1
            assert time.monotonic() < deadline, "the change was not seen"

    at_once(work)


def test_a_grid_that_another_thread_changes() -> None:
    grid, out = [1], np.zeros((THREADS, 4), np.int32)
    names: dict[str, Any] = {"tl": tl}
    exec("def kernel(out):\n    tl.store(out + tl.program_id(0), 7)\n", names)
    kernel = tw.jit(names["kernel"])

    def work(number: int) -> None:
        for turn in range(2000):
            if number == 0:
                grid[:] = [1 + turn % 3, 1, 1][: 1 + turn % 2]
            kernel[grid](out[number])

    at_once(work)
    assert (out[1:, 0] == 7).all()
    assert (out[:, 3] == 0).all()


def test_autotuning() -> None:
    tuned = tw.autotune([tw.Config({"BLOCK": block}) for block in (64, 128)], key=["n"])(tw.jit(scaled))

    def work(number: int) -> None:
        for n in (100, 1000):
            x, out = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
            tuned[lambda meta: (tw.cdiv(meta["n"], meta["BLOCK"]),)](x, out, n, K=2)
            np.testing.assert_array_equal(out, (x * 2 + 3) * 2)

    at_once(work)


def test_a_cache_on_disk_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "20000")
    at_once(lambda number: check(tw.jit(scaled), number, 6))


def test_interpreted() -> None:
    kernel = tw.jit(interpret=True)(scaled)
    at_once(lambda number: check(kernel, number, 3))


@tw.vectorize
def mixed(a, b):
    return a * b + (a if a > b else b)


@pytest.mark.skipif(not is_native(), reason="there is no native launcher here")
def test_vectorized_functions() -> None:
    def work(number: int) -> None:
        random = np.random.default_rng(number)
        for turn in range(60):
            a = random.standard_normal(int(10 ** random.uniform(0, 5.2))).astype(np.float32 if turn % 2 else np.float64)
            b, out = random.standard_normal(a.size).astype(a.dtype), np.empty_like(a)
            expected = a * b + np.maximum(a, b)
            np.testing.assert_allclose(mixed(a, b), expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(mixed(a, b, out=out), expected, rtol=1e-5, atol=1e-6)
            assert mixed(number, turn) == number * turn + max(number, turn)

    at_once(work)


@pytest.mark.skipif(not IS_FREE_THREADED, reason="objects are counted together where threads are free")
def test_kernels_of_modules_are_not_counted() -> None:
    def inner(out):
        tl.store(out, 7)

    names: dict[str, Any] = {"tl": tl}
    exec("def outer(out):\n    tl.store(out, 7)\n", names)
    immortal = []
    for function in (names["outer"], inner):
        kernel, out = tw.jit(function), np.zeros(1, np.int32)
        results = [kernel[(1,)](out) for _ in range(3)]
        immortal.append([sys._is_immortal(value) for value in (kernel._native, results[-1])])
    assert immortal == [[True, True], [False, False]]
