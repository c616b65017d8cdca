"""Compilations on a real cluster of Ray, with everything that can happen to its workers."""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import cluster_kernels
import numpy as np
import pytest
from cluster_kernels import grid, scale, store
from warming import NUMBERS, on_a_full_disk, warm_up

import tilewright as tw
from tilewright import knobs
from tilewright.runtime.ray_executor import RayExecutor

pytestmark = [pytest.mark.needs_ray, pytest.mark.slow]

FEW = (40, 41)


class Under(RayExecutor):
    """Workers to which something was done; each does one task only."""

    def __init__(self, setup: Any) -> None:
        super().__init__(num_cpus=1, max_calls=1)
        self.setup = setup

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(cluster_kernels.under, self.setup, fn)


def test_workers_compile_and_measure(ray_cluster: Path) -> None:
    with warnings.catch_warnings(), RayExecutor(num_cpus=1) as pool:
        warnings.simplefilter("error", RuntimeWarning)
        assert warm_up(pool) == [True] * len(NUMBERS)
        launches = [tw.Launch(scale, grid, np.ones(n, np.float32), np.zeros(n, np.float32), n) for n in (100, 200)]
        tw.tune(launches, executor=pool)
    assert len(scale.cache) >= 2


def test_results_and_exceptions_come_back(ray_cluster: Path) -> None:
    with RayExecutor() as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result(timeout=120)
    pool = RayExecutor(num_cpus=1)
    pool.submit(abs, 1)
    pool.shutdown(wait=False, cancel_futures=True)


def test_a_worker_is_killed_while_it_compiles(ray_cluster: Path) -> None:
    """Without retries the task is lost, and done here; Ray would repeat it otherwise."""

    class Deadly(RayExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            return super().submit(cluster_kernels.under, cluster_kernels.die, fn)

    with Deadly(max_retries=0) as pool, pytest.warns(RuntimeWarning, match="a worker was lost .WorkerCrashedError"):
        warm_up(pool, FEW)


def test_workers_of_another_kind_of_cpu(ray_cluster: Path) -> None:
    with (
        Under(cluster_kernels.become_another_cpu) as pool,
        pytest.warns(RuntimeWarning, match="this worker would make another kernel: its CPU"),
    ):
        assert warm_up(pool, (42, 43)) == [False] * 2


def test_workers_with_a_full_disk(tmp_path: Path) -> None:
    """Nothing is kept, and everything is right."""
    said = on_a_full_disk("ray", tmp_path)
    assert said["found"] == [False] * len(said["found"])
    assert any("the cache of this worker does not take entries" in text for text in said["told"])


@pytest.mark.needs_redis
@pytest.mark.parametrize(("key", "numbers"), [("the same", (46, 47)), ("another", (48, 49))])
def test_a_remote_cache_with_signatures(
    ray_cluster: Path, key: str, numbers: tuple[int, ...], tmp_path: Path, redis_port: int
) -> None:
    with knobs.cache.scope(), knobs.tilewright.scope():
        cluster_kernels.use_redis(redis_port, str(tmp_path / "cache-mine"), "the same")
        with Under(partial(cluster_kernels.use_redis, redis_port, str(tmp_path / "cache-worker"), key)) as pool:
            if key == "the same":
                assert warm_up(pool, numbers) == [True] * 2
                return
            with pytest.warns(RuntimeWarning, match="keeps kernels where this process does not find them"):
                assert warm_up(pool, numbers) == [False] * 2


def test_the_cluster_goes_away(ray_cluster: Path) -> None:
    """It is the last test: the cluster of the others is gone."""
    import ray

    with knobs.tilewright.scope():
        knobs.tilewright.worker_seconds = 3
        store.hash = None
        with pytest.warns(RuntimeWarning, match="a worker was lost"):
            warm_up(RayExecutor(), (50, 51), during=ray.shutdown)
    with pytest.raises(RuntimeError, match=r"call ray.init"):
        RayExecutor()
