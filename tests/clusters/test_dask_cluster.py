"""Arrays and compilations on a real cluster of Dask, with everything that can happen to its workers."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import cluster_kernels
import numpy as np
import pytest
from cluster_kernels import add, grid, scale, weighted
from warming import NUMBERS, on_a_full_disk, shared_cache, warm_up

import tilewright as tw
import tilewright.language as tl
from tilewright import knobs

pytestmark = [pytest.mark.needs_dask, pytest.mark.slow]

GRID = (1,)


def size(block: Any) -> int:
    return int(block.out.size)


def test_workers_compile_and_measure(calm_client: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert warm_up(calm_client.get_executor()) == [True] * len(NUMBERS)
    measured: list[Any] = []
    knobs.autotuning.listener = lambda *, cache_hit, **_: measured.append(cache_hit)
    launches = [tw.Launch(scale, grid, np.ones(n, np.float32), np.zeros(n, np.float32), n) for n in (100, 200, 300)]
    try:
        tw.tune(launches, executor=calm_client.get_executor())
    finally:
        knobs.autotuning.listener = None
    assert not measured, "no measuring here"
    assert len(scale.cache) == 3


def test_arrays_and_kernels_of_this_process(calm_client: Any) -> None:
    """Functions that workers cannot import go by source; what they compile is in the one cache folder."""
    import dask.array as da

    offset = tl.constexpr(3)

    @tw.jit
    def shifted(x, out, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + offset, mask=at < n)

    @tw.vectorize
    def squared(a):
        return a * a

    x = np.arange(64, dtype=np.float32)
    chunked = da.from_array(x, chunks=16)
    lazy = weighted(squared(tw.map_blocks(shifted, chunked, tw.OUT, size, grid=GRID, BLOCK=16)), 1)
    np.testing.assert_array_equal(lazy.compute(), (x + 3) ** 2 * 2 + 1)


def test_a_kernel_is_compiled_once_per_machine(calm_client: Any, tmp_path: Path) -> None:
    """One worker after the other: the second one finds what the first one has compiled."""
    import dask.array as da

    calm_client.run(cluster_kernels.count_compilations, str(tmp_path))
    workers = sorted(calm_client.scheduler_info()["workers"])
    x = np.arange(48, dtype=np.float32)
    for worker in workers * 2:
        with_it = tw.map_blocks(add, da.from_array(x, chunks=16), x[:16].copy(), tw.OUT, size, grid=grid, BLOCK=16)
        found = calm_client.compute(with_it, workers=[worker]).result()
        np.testing.assert_array_equal(found, x + np.tile(x[:16], 3))
    notes = list(tmp_path.glob("compiled-*"))
    assert len(notes) == 2
    assert sum(note.read_text().count("1") for note in notes) == 1


@pytest.mark.parametrize("block", [32, 64, 128])
def test_of_two_workers_that_start_a_kernel_at_the_same_moment_one_compiles(
    calm_client: Any, tmp_path: Path, block: int
) -> None:
    import dask.array as da

    calm_client.run(cluster_kernels.count_compilations, str(tmp_path))
    rows = [np.arange(number, number + 16, dtype=np.float32) for number in range(2)]
    pieces = [da.from_array(x, chunks=16) for x in rows]
    lazy = [tw.map_blocks(add, x, x, tw.OUT, size, grid=grid, BLOCK=block) for x in pieces]
    workers = sorted(calm_client.scheduler_info()["workers"])
    begun = [calm_client.compute(x, workers=[worker]) for x, worker in zip(lazy, workers, strict=True)]
    for x, future in zip(rows, begun, strict=True):
        np.testing.assert_array_equal(future.result(), 2 * x)
    notes = list(tmp_path.glob("compiled-*"))
    assert len(notes) == 2
    assert sum(note.read_text().count("1") for note in notes) == 1


# What happens to workers: nothing is lost, and nothing wrong


@pytest.mark.filterwarnings("ignore:a worker was lost:RuntimeWarning")
def test_a_worker_is_killed_while_it_compiles(client: Any) -> None:
    pool = client.get_executor()

    def kill() -> None:
        with contextlib.suppress(Exception):
            client.run(cluster_kernels.die, workers=[next(iter(client.scheduler_info()["workers"]))])

    warm_up(pool, during=kill)


@pytest.mark.filterwarnings("ignore:a worker was lost:RuntimeWarning")
def test_a_worker_is_killed_while_it_computes(client: Any) -> None:
    import dask.array as da

    x = np.arange(64, dtype=np.float32)
    slow = da.from_array(x, chunks=8).map_blocks(cluster_kernels.slowly, dtype=np.float32)
    future = client.compute(tw.map_blocks(add, slow, slow, tw.OUT, size, grid=grid, BLOCK=16))
    with contextlib.suppress(Exception):
        client.run(cluster_kernels.die, workers=[next(iter(client.scheduler_info()["workers"]))])
    np.testing.assert_array_equal(future.result(timeout=120), 2 * x)


@pytest.mark.filterwarnings("ignore:a worker was lost:RuntimeWarning")
def test_all_workers_start_anew(client: Any) -> None:
    """All that was submitted is cancelled; this process does it."""
    pool = client.get_executor()
    warm_up(pool, during=lambda: client.restart(timeout=120))
    assert warm_up(client.get_executor(), tuple(range(20, 24))) == [True] * 4, "the workers that came then help"


class Cluster:
    """A scheduler at a fixed address and a worker, each a process that the test may kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        where = ["--host", "127.0.0.1", "--port", str(self.port)]
        own = ["--nthreads", "1", "--local-directory", str(self.folder)]
        self._run("dask_scheduler", *where, "--no-dashboard", "--no-show")
        self._run("dask_worker", self.address, *own, "--no-dashboard")

    def _run(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def kill(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL if process is self.processes[0] else signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=120)
        self.processes = []


def test_the_scheduler_is_killed_and_another_starts_at_its_address(tmp_path: Path) -> None:
    import distributed

    with shared_cache(tmp_path / "cache"):
        cluster = Cluster(tmp_path)
        cluster.start()
        try:
            with distributed.Client(cluster.address, timeout=120) as client:
                client.wait_for_workers(1, timeout=120)
                knobs.tilewright.worker_seconds = 5
                with pytest.warns(RuntimeWarning, match="a worker was lost"):
                    warm_up(client.get_executor(), tuple(range(30, 60)), during=cluster.kill)
                cluster.start()
                knobs.tilewright.worker_seconds = 120
                with distributed.Client(cluster.address, timeout=120) as another:
                    another.wait_for_workers(1, timeout=120)
                    assert warm_up(another.get_executor(), (70, 71)) == [True] * 2
        finally:
            cluster.kill()


def test_the_cluster_goes_away(client: Any) -> None:
    pool = client.get_executor()
    client.cluster.close()
    knobs.tilewright.worker_seconds = 5
    with pytest.warns(RuntimeWarning, match="a worker was lost"):
        warm_up(pool)


def test_workers_of_another_kind_of_cpu(client: Any) -> None:
    client.run(cluster_kernels.become_another_cpu)
    with pytest.warns(RuntimeWarning, match="this worker would make another kernel: its CPU"):
        assert warm_up(client.get_executor()) == [False] * len(NUMBERS)


def test_one_worker_of_another_kind_computes_what_the_others_do(client: Any) -> None:
    import dask.array as da

    client.run(cluster_kernels.become_another_cpu, workers=[next(iter(client.scheduler_info()["workers"]))])
    x = np.random.default_rng(1).random(256).astype(np.float32)
    chunked = da.from_array(x, chunks=16)
    lazy = tw.map_blocks(add, chunked, weighted(chunked, 1), tw.OUT, size, grid=grid, BLOCK=16)
    np.testing.assert_array_equal(lazy.compute(), x + (x * 2 + 1))


def test_workers_with_a_full_disk(tmp_path: Path) -> None:
    """Nothing is kept, and everything is right."""
    said = on_a_full_disk("dask", tmp_path)
    assert said["found"] == [False] * len(said["found"])
    assert any("the cache of this worker does not take entries" in text for text in said["told"])
    assert said["blocks"]


@pytest.mark.needs_redis
@pytest.mark.parametrize("key", ["the same", "another"])
def test_a_remote_cache_with_signatures(client: Any, key: str, tmp_path: Path, redis_port: int) -> None:
    """Each process has a folder of its own: what workers compile comes through Redis, if it is signed with the key."""
    client.run(cluster_kernels.use_redis, redis_port, str(tmp_path / "cache-worker"), key)
    cluster_kernels.use_redis(redis_port, str(tmp_path / "cache-mine"), "the same")
    if key == "the same":
        assert warm_up(client.get_executor()) == [True] * len(NUMBERS)
        return
    with pytest.warns(RuntimeWarning, match="keeps kernels where this process does not find them"):
        assert warm_up(client.get_executor()) == [False] * len(NUMBERS)

