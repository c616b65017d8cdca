"""A cluster whose workers keep kernels on a disk that is full: a small file system, mounted for this program alone.

    unshare -rm python full_disk.py dask|ray FOLDER

Prints which kernels the client found in its cache, what it was warned of, and whether arrays in blocks came out right.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import cluster_kernels
import numpy as np
from cluster_kernels import add, grid
from warming import shared_cache, warm_up

import tilewright as tw
from conftest import dask_client

FEW = (2, 3, 4, 5)


def mounted(disk: Path) -> Path:
    """The folder, a disk of 64 KiB without any room."""
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(disk)]
    subprocess.run(["mount", *options], check=True)
    try:
        (disk / "everything").write_bytes(bytes(1 << 20))
    except OSError as error:
        assert "No space left" in str(error)  # noqa: PT017 - no test: the program that one starts
    return disk


@contextmanager
def dask_pool(folder: Path, disk: Path) -> Iterator[Any]:
    with dask_client(folder) as client:
        client.run(cluster_kernels.keep_in, str(disk))
        yield client.get_executor()


@contextmanager
def ray_pool(folder: Path, disk: Path) -> Iterator[Any]:
    import ray
    from test_ray_cluster import Under

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    with Under(partial(cluster_kernels.keep_in, str(disk))) as pool:
        yield pool
    ray.shutdown()


def blocks() -> bool:
    """Whether a kernel for each block of an array in blocks gives what it should."""
    import dask.array as da

    x = np.arange(64, dtype=np.float32)
    chunked = da.from_array(x, chunks=16)
    lazy = tw.map_blocks(add, chunked, chunked, tw.OUT, lambda block: block.out.size, grid=grid, BLOCK=16)
    return bool(np.array_equal(lazy.compute(), 2 * x))


def main(engine: str, folder: Path) -> None:
    pools = {"dask": dask_pool, "ray": ray_pool}
    disk = mounted(folder / "disk")
    with (
        warnings.catch_warnings(record=True) as told,
        shared_cache(folder / "cache"),
        pools[engine](folder / "engine", disk) as pool,
    ):
        warnings.simplefilter("always", RuntimeWarning)
        found = warm_up(pool, FEW)
        right = engine != "dask" or blocks()
    texts = [str(warning.message) for warning in told if warning.category is RuntimeWarning]
    print(json.dumps({"found": found, "told": texts, "blocks": right}))  # noqa: T201 - for the test


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
