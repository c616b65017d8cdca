"""Compilations that go to other processes: they come back through the cache, and whatever goes wrong is done here."""

from __future__ import annotations

import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import Elsewhere, Silent, become_another_cpu

import tilewright as tw
import tilewright.language as tl
from tilewright import knobs
from tilewright.compiler import cache_key
from tilewright.runtime import build, waiting
from tilewright.runtime.compile_task import ArrivedTask
from tilewright.support.diagnostics import CompileTimeAssertionFailure

GRID = (1,)


@tw.jit
def store(out, N: tl.constexpr):
    tl.static_assert(N < 99)
    tl.store(out, N)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """An empty cache, kernels that are not in memory, and all warnings to come; gives whether each was in the cache."""
    hits: list[bool] = []
    monkeypatch.setattr(waiting, "_told", set())
    store.hash = None
    with knobs.cache.scope(), knobs.tilewright.scope(), knobs.compilation.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
        yield hits


def run(executor: Executor | None, numbers: tuple[int, ...] = (3, 4, 5)) -> None:
    """Compile by the executor, launch, and see the right results."""
    with tw.AsyncCompileMode(executor):
        for n in numbers:
            store.warmup(np.int32, n, grid=GRID)
    for n in numbers:
        out = np.zeros(1, np.int32)
        store[GRID](out, n)
        assert out[0] == n


def test_another_process_compiles_and_this_one_loads(fresh: list[bool]) -> None:
    pool = Elsewhere()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(pool)
    assert [report.status for report in pool.reports] == ["compiled"] * 3
    assert fresh == [False] * 3 + [True] * 3, "compiled there, found here"
    assert all(len(message) < 1500 for message in pool.messages)


def test_what_is_in_the_cache_is_not_compiled_again(fresh: list[bool]) -> None:
    run(None, (3,))
    store.hash = None
    pool = Elsewhere()
    run(pool, (3,))
    assert [report.status for report in pool.reports] == ["found"]


def test_processes_of_this_machine_are_the_default(fresh: list[bool]) -> None:
    run(None, tuple(range(2, 12)))
    assert fresh == [True] * 10


def test_kernels_of_functions_and_constants_that_are_functions(fresh: list[bool]) -> None:
    @tw.jit
    def twice(x):
        return 2 * x

    @tw.jit
    def apply(out, f: tl.constexpr, shape: tl.constexpr, kind: tl.constexpr):
        tl.store(out, f(tl.full([], shape[1], kind)))

    with tw.AsyncCompileMode(None):
        apply.warmup(np.int32, twice, (3, 4), tl.int32, grid=GRID)
    out = np.zeros(1, np.int32)
    apply[GRID](out, twice, (3, 4), tl.int32)
    assert (out[0], fresh) == (8, [True])


@pytest.mark.parametrize("is_ignored", [False, True])
def test_an_error_is_that_of_the_kernel(is_ignored: bool) -> None:
    pool, wrong = Elsewhere(), tw.AsyncCompileMode(Elsewhere(), ignore_errors=is_ignored)
    if is_ignored:
        with wrong:
            assert store.warmup(np.int32, 100, grid=GRID).result(ignore_errors=True) is None
        return
    with pytest.raises(CompileTimeAssertionFailure) as caught:
        run(pool, (4, 100, 5))
    assert "test_compile_elsewhere.py" in str(caught.value)
    assert [report.status for report in pool.reports] == ["compiled", "failed", "compiled"]


# What goes wrong: nothing is lost, and nothing wrong


def damaged(change: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda task: task._replace(**change)


class Changed(Elsewhere):
    """Another process that receives, or is, something else."""

    def __init__(self, **change: Any) -> None:
        super().__init__()
        self.change = change

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        _, parts = fn.__reduce__()
        changed = ArrivedTask(*parts)._replace(**self.change)
        return super().submit(changed)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"functions": b"no pickle"}, "the kernel cannot be read: UnpicklingError"),
        ({"functions": pickle.dumps([waiting.warn]).replace(b"waiting", b"waitinG")}, "ModuleNotFoundError"),
        ({"digest": "0" * 64}, "this worker would make another kernel"),
        ({"symbol": "other"}, "this worker would make another kernel"),
    ],
)
def test_a_worker_that_is_another_refuses(change: dict[str, Any], why: str, fresh: list[bool]) -> None:
    text = f"did not help with store: .*{why}.*this process does the work itself"
    with pytest.warns(RuntimeWarning, match=text) as told:
        run(Changed(**change))
    assert len(told) == 1, "of three kernels"
    assert fresh == [False] * 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_worker_with_another_cpu_refuses(fresh: list[bool]) -> None:
    with (
        ProcessPoolExecutor(1, mp_context=get_context("fork"), initializer=become_another_cpu) as pool,
        pytest.warns(RuntimeWarning, match="this worker would make another kernel: its CPU"),
    ):
        run(pool, (3,))
    assert fresh == [False]


def test_a_worker_whose_cache_is_another_is_told_of(tmp_path: Path, fresh: list[bool]) -> None:
    class OtherFolder(Elsewhere):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            with knobs.cache.scope():
                knobs.cache.dir = str(tmp_path / "other")
                return super().submit(fn)

    with pytest.warns(RuntimeWarning, match="keeps kernels where this process does not find them; set TRITON_CACHE"):
        run(OtherFolder(), (3,))
    assert fresh == [False, False]


def test_a_worker_that_cannot_keep_anything(tmp_path: Path, fresh: list[bool]) -> None:
    (tmp_path / "file").write_text("")

    class NoFolder(Elsewhere):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            with knobs.cache.scope():
                knobs.cache.dir = str(tmp_path / "file")
                return super().submit(fn)

    with pytest.warns(RuntimeWarning) as told:
        run(NoFolder(), (3,))
    assert any("the cache of this worker does not take entries" in str(warning.message) for warning in told)


def test_an_answer_that_is_none_is_an_error() -> None:
    with pytest.warns(RuntimeWarning, match="a worker was lost .ZeroDivisionError: division by zero."):
        run(Elsewhere(lambda report: 1 / 0))


def test_workers_that_never_answer(fresh: list[bool]) -> None:
    knobs.tilewright.worker_seconds = 0.05
    pool, begin = Silent(), time.monotonic()
    with pytest.warns(RuntimeWarning, match="a worker was lost .LostError: no worker answered for 0.05 s"):
        run(pool)
    assert time.monotonic() - begin < 10
    assert all(future.cancelled() for future in pool.futures)


def kill_me_soon() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:a worker was lost:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_worker_that_is_killed_in_the_middle() -> None:
    numbers = tuple(range(2, 22))
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        with tw.AsyncCompileMode(pool):
            for n in numbers[:10]:
                store.warmup(np.int32, n, grid=GRID)
            pool.submit(kill_me_soon)
            time.sleep(0.05)
        run(pool if not pool._broken else None, numbers)


# Autotuning


def make_tuned(count: int) -> Any:
    @tw.autotune([tw.Config({"BLOCK": 16 << i}) for i in range(count)], key=["n"])
    @tw.jit
    def scaled(x, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

    return scaled


def test_candidates_of_an_autotuned_kernel_are_compiled_elsewhere(fresh: list[bool]) -> None:
    pool, scaled = Elsewhere(), make_tuned(5)
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    with tw.AsyncCompileMode(pool):
        scaled[lambda meta: (tw.cdiv(100, meta["BLOCK"]),)](x, out, 100)
    np.testing.assert_array_equal(out, 2 * x)
    assert [report.status for report in pool.reports] == ["compiled"] * 5
    assert len(scaled.configs_timings) == 5


# Caches that machines share, other targets


def test_the_key_of_a_shared_cache_stands_for_contents() -> None:
    """Files of the package have other dates on other machines."""
    assert build.compiler_identity() == cache_key.compiler_sources()
    knobs.tilewright.cache_is_shared = True
    assert build.compiler_identity() == cache_key.portable_identity() != cache_key.compiler_sources()


def test_kernels_for_gpus_are_compiled_elsewhere(fresh: list[bool]) -> None:
    pool = Elsewhere()
    out = np.zeros(1, np.int32)
    with tw.simulate("cuda:90"):
        with tw.AsyncCompileMode(pool):
            store.warmup(np.int32, 3, grid=GRID)
        store[GRID](out, 3)
    assert out[0] == 3
    assert [report.status for report in pool.reports] == ["compiled"]
    assert fresh == [False, True]
