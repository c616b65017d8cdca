"""The examples of clusters run as the page about them says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fresh_caches import cache_without_kernels

EXAMPLES = Path(__file__).parents[2] / "examples" / "clusters"
PYTHON = [sys.executable]


def printed(command: list[str], cache: Path, **more: str) -> list[str]:
    """The lines that a program prints, with a cache without kernels."""
    settings = {"TRITON_CACHE_DIR": str(cache_without_kernels(cache)), "TILEWRIGHT_NUM_THREADS": "1", **more}
    environment = {**os.environ, **settings}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


WARM = ["12 of 12 kernels came from other processes", "[0. 2. 4. 6.] 1998.0"]


@pytest.mark.spared
@pytest.mark.parametrize(
    "kind",
    [
        "here",
        pytest.param("dask", marks=[pytest.mark.needs_dask, pytest.mark.slow]),
        pytest.param("ray", marks=[pytest.mark.needs_ray, pytest.mark.slow]),
    ],
)
def test_many_kernels_are_compiled_before_they_are_needed(kind: str, tmp_path: Path) -> None:
    assert printed([*PYTHON, str(EXAMPLES / "warm_up.py"), kind], tmp_path)[-2:] == WARM


@pytest.mark.slow
@pytest.mark.needs_mpi4py
def test_ranks_of_mpi_compile(tmp_path: Path) -> None:
    """Rank 0 runs the program, the others work for it. Two workers take the parts that a cluster has."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    program = ["-m", "mpi4py.futures", str(EXAMPLES / "warm_up.py"), "mpi"]
    command = ["mpiexec", "--oversubscribe", "-n", "3", *PYTHON, *program]
    assert printed(command, tmp_path, **root) == WARM


@pytest.mark.slow
@pytest.mark.needs_dask
def test_arrays_in_blocks(tmp_path: Path) -> None:
    assert printed([*PYTHON, str(EXAMPLES / "dask_blocks.py")], tmp_path) == ["(600, 400) float32 (3, 2)", "0.1865"]


@pytest.mark.slow
@pytest.mark.needs_torch
def test_ranks_of_torch_share_the_tuning(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    facts = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port - 1), "WORLD_SIZE": "2", "TILEWRIGHT_NUM_THREADS": "1"}

    def start(rank: int) -> subprocess.Popen[str]:
        cache = cache_without_kernels(tmp_path / str(rank))
        environment = {**os.environ, **facts, "RANK": str(rank), "TRITON_CACHE_DIR": str(cache)}
        command = [*PYTHON, str(EXAMPLES / "tune_ranks.py")]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    said = [rank.communicate(timeout=300)[0] for rank in [start(0), start(1)]]
    assert said == [
        "rank 0 measured [1000, 100000] and knows the best of 4\n",
        "rank 1 measured [10000, 1000000] and knows the best of 4\n",
    ]
