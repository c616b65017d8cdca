"""A cluster of Dask, each worker a process on this machine, and a server of Redis; caches that they share."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tilewright import knobs
from tilewright.runtime import waiting

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"


@contextmanager
def shared_cache(folder: Path) -> Iterator[Path]:
    """Let the folder be the cache of this process and of all that it starts; every warning comes anew."""
    path = os.pathsep.join([str(HERE), str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
    with pytest.MonkeyPatch.context() as patch, knobs.cache.scope(), knobs.tilewright.scope():
        patch.setenv("PYTHONPATH", path)
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        patch.setenv("TILEWRIGHT_NUM_THREADS", "1")
        patch.setattr(waiting, "_told", set())
        with knobs.compilation.scope(), knobs.redis.scope():
            yield folder


@contextmanager
def dask_client(folder: Path) -> Iterator[Any]:
    """A client of two workers, each a process with one thread, whom a nanny replaces when they die."""
    import dask
    import distributed

    patient = {"distributed.admin.tick.limit": "60s", "distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set({"temporary-directory": str(folder), **patient}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    """A client of a cluster that the test may spoil."""
    with shared_cache(tmp_path / "cache"), dask_client(tmp_path / "dask") as client:
        yield client


@pytest.fixture(scope="module")
def calm_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a cluster that several tests use one after the other."""
    folder = tmp_path_factory.mktemp("calm")
    with shared_cache(folder / "cache"), dask_client(folder / "dask") as client:
        yield client


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of Ray on this machine, whose workers share a cache folder with this process."""
    import ray

    folder = tmp_path_factory.mktemp("ray")
    with shared_cache(folder / "cache"):
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        try:
            yield folder
        finally:
            ray.shutdown()


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server of its own on a loopback port, which keeps nothing on disk."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    folder = str(tmp_path_factory.mktemp("redis"))
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        server.kill()
        server.wait()
