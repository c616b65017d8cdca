"""Compiling in the background."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.async_compile import active_mode
from tilewright.support.diagnostics import CompileTimeAssertionFailure


class ByHand(Executor):
    """Runs nothing before it is told to."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def task() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - it belongs to who waits
                future.set_exception(error)

        self.work.append(task)
        return future

    def run(self, count: int) -> None:
        for _ in range(count):
            self.work.pop(0)()


@pytest.fixture
def store() -> Any:
    @tw.jit
    def store(out, N: tl.constexpr):
        tl.static_assert(N < 9)
        tl.store(out, N)

    return store


def test_compilations_wait_and_are_submitted_once(store: Any) -> None:
    out, pool = np.zeros(1, np.int32), ByHand()
    with tw.AsyncCompileMode(pool):
        futures = [store.warmup(np.int32, n, grid=(1,)) for n in (1, 2, 1, 2)]
        assert len(store.device_caches[0][0]) == len(pool.work) == 2
        assert all(isinstance(future, tw.FutureKernel) for future in futures)
        pool.run(1)
        assert store[(1,)](out, 1) is futures[0].result()
        assert out[0] == 1
        pool.run(1)
    assert futures[1].name == "store"
    assert store[(1,)](out, 2) is futures[1].result()
    assert out[0] == 2


def test_threads_compile(store: Any) -> None:
    out = np.zeros(1, np.int32)
    with ThreadPoolExecutor(2) as pool, tw.AsyncCompileMode(pool):
        for n in range(4):
            store.warmup(np.int32, n, grid=(1,))
        for n in (3, 0, 5):
            store[(1,)](out, n)
            assert out[0] == n
    assert len(store.device_caches[0][0]) == 5


def test_the_first_error_is_raised_after_all_have_ended(store: Any) -> None:
    mode = tw.AsyncCompileMode(ThreadPoolExecutor(2))
    with mode.executor, pytest.raises(CompileTimeAssertionFailure):
        warm_up(mode, store)
    assert active_mode.get() is None
    bad, good = mode.future_kernels.values()
    assert good.kernel is not None
    assert bad.kernel is None


def warm_up(mode: tw.AsyncCompileMode, store: Any) -> None:
    with mode:
        assert active_mode.get() is mode
        for n in (10, 1):
            store.warmup(np.int32, n, grid=(1,))


def test_errors_may_be_ignored(store: Any) -> None:
    with ThreadPoolExecutor(1) as pool, tw.AsyncCompileMode(pool, ignore_errors=True):
        assert store.warmup(np.int32, 10, grid=(1,)).result(ignore_errors=True) is None


def test_an_error_of_the_block_does_not_wait(store: Any) -> None:
    pool = ByHand()
    with pytest.raises(ZeroDivisionError):
        warm_up_and_fail(tw.AsyncCompileMode(pool), store)
    assert len(pool.work) == 1
    pool.run(1)
    assert store.warmup(np.int32, 1, grid=(1,)).result() is not None


def warm_up_and_fail(mode: tw.AsyncCompileMode, store: Any) -> None:
    with mode:
        store.warmup(np.int32, 1, grid=(1,))
        raise ZeroDivisionError


def test_modes_do_not_nest() -> None:
    pool = ByHand()
    with (
        tw.AsyncCompileMode(pool),
        pytest.raises(RuntimeError, match="active already"),
        tw.AsyncCompileMode(pool),
    ):
        pass
