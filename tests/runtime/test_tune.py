"""`tune`: launches are measured by this process, by workers, by ranks; whatever goes wrong is measured here."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import Elsewhere, Silent, become_another_cpu

import optional_peers
import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels
from tilewright import knobs
from tilewright.runtime import waiting
from tilewright.runtime.tuning import together
from tilewright.runtime.tuning.config import StoredResults
from tilewright.runtime.tuning.together import ArrivedTuneTask

CONFIGS = [tw.Config({"BLOCK": block}) for block in (16, 64, 256)]
SIZES = (100, 200, 300, 400)


@tw.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def grid(meta: Any) -> tuple[int]:
    return (tw.cdiv(meta["n"], meta["BLOCK"]),)


class Tuned:
    """An autotuned kernel; each is another one with the same key, as in another process."""

    def __init__(self) -> None:
        self.kernel = tw.autotune(CONFIGS, key=["n"])(scale)

    def launches(self) -> list[tw.Launch]:
        def launch(n: int) -> tw.Launch:
            return tw.Launch(self.kernel, grid, np.arange(n, dtype=np.float32), np.zeros(n, np.float32), n)

        return [launch(n) for n in SIZES]

    def is_right(self) -> bool:
        """Launch all; nothing more is measured, and the results are right."""
        count = len(MEASURED)
        for launch in self.launches():
            x, out, n = launch.args
            self.kernel[grid](x, out, n)
            np.testing.assert_array_equal(out, 2 * x)
        return len(MEASURED) == count and len(self.kernel.cache) == len(SIZES)


MEASURED: list[str] = []
"""The tunings that this process measured."""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(waiting, "_told", set())
    monkeypatch.setattr(together, "_AT_ONCE", timedelta(milliseconds=10))
    MEASURED.clear()
    scale.hash = None  # no kernel is in memory
    with knobs.cache.scope(), knobs.tilewright.scope(), knobs.autotuning.scope():
        knobs.cache.dir = str(tmp_path / "cache")
        knobs.autotuning.listener = lambda *, fn, cache_hit, **_: MEASURED.append(fn.__name__)
        yield


def test_this_process_measures() -> None:
    tuned, again = Tuned(), Tuned()
    assert tw.tune(tuned.launches()) is None
    assert len(MEASURED) == 4
    assert tuned.is_right()
    tw.tune(again.launches())
    assert len(MEASURED) == 4, "the results were in the cache"
    assert again.is_right()


def test_workers_measure() -> None:
    tuned, pool = Tuned(), Elsewhere()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tw.tune(tuned.launches(), executor=pool)
    assert [report.status for report in pool.reports] == ["compiled"] * 4
    assert len(MEASURED) == 4, "all of them as the worker"
    assert tuned.is_right()


def test_threads_measure() -> None:
    tuned = Tuned()
    with ThreadPoolExecutor(2) as pool:
        tw.tune(tuned.launches(), executor=pool)
    assert tuned.is_right()


@pytest.mark.spared
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_processes_measure() -> None:
    tuned = Tuned()
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        tw.tune(tuned.launches(), executor=pool)
    assert not MEASURED
    assert tuned.is_right()


@pytest.mark.spared
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_with_another_cpu() -> None:
    tuned = Tuned()
    context = get_context("fork")
    with (
        ProcessPoolExecutor(1, mp_context=context, initializer=become_another_cpu) as pool,
        pytest.warns(RuntimeWarning, match="did not help with scale: this worker would measure something else"),
    ):
        tw.tune(tuned.launches(), executor=pool)
    assert len(MEASURED) == 4
    assert tuned.is_right()


class Broken(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise RuntimeError("no workers are left")


class Changed(Elsewhere):
    """A worker that cannot read the launch."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(ArrivedTuneTask(b"no pickle", fn.__reduce__()[1][1]))


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (Broken, "a worker was lost .RuntimeError: no workers are left"),
        (Silent, "a worker was lost .LostError: no worker answered for 0.05 s"),
        (Changed, "did not help with scale: the launch cannot be read: UnpicklingError"),
        (lambda: Elsewhere(lambda report: report._replace(status="not kept", why="no")), "did not help with scale: no"),
    ],
)
def test_workers_that_fail(pool: Callable[[], Executor], message: str) -> None:
    knobs.tilewright.worker_seconds = 0.05
    tuned = Tuned()
    with pytest.warns(RuntimeWarning, match=message):
        tw.tune(tuned.launches(), executor=pool())
    assert tuned.is_right()


def test_a_wrong_kernel_is_an_error_as_ever() -> None:
    @tw.autotune([tw.Config({"N": n}) for n in (1, 2)], key=[])
    @tw.jit
    def never(out, N: tl.constexpr):
        tl.static_assert(N > 5)

    launch = tw.Launch(never, (1,), np.zeros(1))
    for executor in (None, Elsewhere()):
        with pytest.raises(tw.AutotunerError, match="No configuration of never works"):
            tw.tune([launch], executor=executor)


def test_kernels_of_functions_are_sent_with_their_hooks() -> None:
    factor = tl.constexpr(3)

    @tw.autotune(CONFIGS, key=["n"], reset_to_zero=["out"])
    @tw.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
    @tw.jit
    def added(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(out + at, mask=at < n) + tl.load(x + at, mask=at < n) * factor, mask=at < n)

    added.fn.values["EVEN"] = is_even
    there = pickle.loads(pickle.dumps(added))
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    there[grid](x, out, 100)
    np.testing.assert_array_equal(out, 3 * x)
    assert there.kernel.cache_key == added.kernel.cache_key
    assert (there.pre_hook, there.base_fn.__name__) == (there._prepare_arrays, "added")


def is_even(arguments: Any) -> bool:
    return bool(arguments["n"] % 2 == 0)


@pytest.mark.parametrize(("options", "error"), [({"executor": Silent(), "store": 1}, ValueError)])
def test_mistakes(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="an executor or a store"):
        tw.tune([], **options)
    with pytest.raises(TypeError, match="takes launches of autotuned kernels, not of a JITFunction"):
        tw.Launch(scale, (1,))


# Ranks


class Store:
    """A store as torch's, in one process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.changed = threading.Condition()

    def set(self, name: str, value: bytes) -> None:
        with self.changed:
            self.values[name] = value
            self.changed.notify_all()

    def wait(self, names: list[str], patience: timedelta) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: all(n in self.values for n in names), patience.total_seconds()):
                raise TimeoutError(names)

    def get(self, name: str) -> bytes:
        return self.values[name]


def tables(store: Store) -> list[bytes]:
    return [value for name, value in store.values.items() if "/tuned/" in name]


def run_ranks(store: Any, ranks: range, world_size: int, monkeypatch: pytest.MonkeyPatch) -> list[Tuned]:
    """One rank after the other would wait in vain, so each has a thread; none finds anything in a cache."""
    everyone = [Tuned() for _ in ranks]
    monkeypatch.setattr(StoredResults, "load", lambda self: None)

    def run(rank: int, tuned: Tuned) -> None:
        tw.tune(tuned.launches(), store=store, rank=rank, world_size=world_size)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(ranks, everyone, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return everyone


def test_ranks_share_the_work_and_choose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    first, second = run_ranks(store, range(2), 2, monkeypatch)
    assert len(MEASURED) == 4, "each launch was measured once"
    assert first.kernel.cache == second.kernel.cache
    assert first.is_right()
    assert second.is_right()
    assert len(tables(store)) == 4


@pytest.mark.spared
def test_tables_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs.tilewright.cache_key = "secret"
    store = Store()
    run_ranks(store, range(2), 2, monkeypatch)
    assert len(MEASURED) == 4
    assert all(table.startswith(b"tilewright-hmac-sha256:") for table in tables(store))
    MEASURED.clear()
    knobs.tilewright.cache_key = "another"
    knobs.tilewright.worker_seconds = 0.05
    with pytest.warns(RuntimeWarning, match="rank 1 did not tell what it measured of scale"):
        (rank,) = run_ranks(store, range(1), 2, monkeypatch)
    assert len(MEASURED) == 4, "nothing that another key signed is believed"
    assert rank.is_right()


@pytest.mark.parametrize(
    "garbage",
    [pytest.param(b"", marks=pytest.mark.spared), b"[]", b"\xff", b'{"configs_timings": [[{"BLOCK": 16}, ["x"]]]}'],
)
def test_garbage_in_the_store(garbage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    run_ranks(store, range(2), 2, monkeypatch)
    for name in [name for name in store.values if "/tuned/" in name]:
        store.values[name] = garbage
    store.set = lambda name, value: None
    MEASURED.clear()
    with pytest.warns(RuntimeWarning, match="did not tell"):
        (rank,) = run_ranks(store, range(1), 2, monkeypatch)
    assert len(MEASURED) == 4
    assert rank.is_right()


@pytest.mark.spared
def test_a_rank_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    knobs.tilewright.worker_seconds = 0.05
    (rank,) = run_ranks(Store(), range(1), 3, monkeypatch)
    assert len(MEASURED) == 4, "who never came has no share"
    assert rank.is_right()
    gone = Store()
    kind = Store()
    run_ranks(kind, range(1), 1, monkeypatch)
    gone.set("tilewright/machine/1", kind.values["tilewright/machine/0"])
    MEASURED.clear()
    with pytest.warns(RuntimeWarning, match="rank 1 did not tell"):
        (rank,) = run_ranks(gone, range(1), 2, monkeypatch)
    assert len(MEASURED) == 4
    assert rank.is_right()


@pytest.mark.spared
def test_a_rank_on_another_kind_of_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    store.set("tilewright/machine/1", b"another")
    (rank,) = run_ranks(store, range(1), 2, monkeypatch)
    assert len(MEASURED) == 4, "it has no share in this machine's tables"
    assert rank.is_right()


RANK = """
import sys
from datetime import timedelta
import numpy as np
import torch.distributed as dist
import tilewright as tw
from tilewright import knobs
from ranked import scale, grid

rank, port = int(sys.argv[1]), int(sys.argv[2])
measured = []
knobs.autotuning.listener = lambda *, key, **_: measured.append(key[0])
store = dist.TCPStore("localhost", port, 2, is_master=rank == 0, timeout=timedelta(seconds=60))
launches = [tw.Launch(scale, grid, np.ones(n, np.float32), np.zeros(n, np.float32), n) for n in (100, 200, 300, 400)]
tw.tune(launches, store=store, rank=rank, world_size=2)
store.set(f"done{rank}", b"1")
store.wait(["done0", "done1"], timedelta(seconds=60))
print(len(measured), sorted((key[0], str(config)) for key, config in scale.cache.items()))
"""

RANKED = """
import tilewright as tw
import tilewright.language as tl

def grid(meta):
    return (tw.cdiv(meta["n"], meta["BLOCK"]),)

@tw.autotune([tw.Config({"BLOCK": block}) for block in (16, 64, 256)], key=["n"])
@tw.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
"""


@pytest.mark.needs_torch
def test_ranks_of_torch_in_processes_with_folders_of_their_own(tmp_path: Path) -> None:
    optional_peers.module("torch")
    (tmp_path / "ranked.py").write_text(RANKED)
    (tmp_path / "rank.py").write_text(RANK)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])

    def start(rank: int) -> subprocess.Popen[str]:
        cache = cache_without_kernels(tmp_path / f"cache{rank}")
        environment = {**os.environ, "TRITON_CACHE_DIR": str(cache), "TILEWRIGHT_CACHE_KEY": "secret"}
        command = [sys.executable, str(tmp_path / "rank.py"), str(rank), port]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path)

    ranks = [start(rank) for rank in range(2)]
    said = [process.communicate(timeout=120)[0].partition(" ") for process in ranks]
    assert [int(count) for count, _, _ in said] == [2, 2]
    assert said[0][2] == said[1][2], "both choose alike"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("is_here", [True, pytest.param(False, marks=pytest.mark.spared)])
def test_tuning_in_the_block_of_a_mode(is_here: bool) -> None:
    """The mode's executor compiles; processes that are forked in the block do not hand on what they are to do."""
    tuned, pool = Tuned(), Elsewhere()
    with tw.AsyncCompileMode(pool):
        if is_here:
            tw.tune(tuned.launches())
        else:
            with ProcessPoolExecutor(2, mp_context=get_context("fork")) as processes:
                tw.tune(tuned.launches(), executor=processes)
    assert len(pool.reports) >= len(CONFIGS) if is_here else not pool.reports
    assert len(MEASURED) == (len(SIZES) if is_here else 0)
    assert tuned.is_right()
