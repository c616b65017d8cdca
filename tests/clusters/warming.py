"""Kernels that an executor compiles, and what is seen of it here; the cache that all share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_kernels import store

import tilewright as tw
from tilewright import knobs
from tilewright.runtime import waiting

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"

NUMBERS = tuple(range(2, 14))
GRID = (1,)


def on_a_full_disk(engine: str, folder: Path) -> Any:
    """The words of `full_disk.py`, run where it may mount a disk of its own."""
    alone = ["unshare", "-rm"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file system can be mounted here")
    path = os.pathsep.join([str(HERE), str(HERE.parent), str(SOURCES)])
    command = [*alone, sys.executable, str(HERE / "full_disk.py"), engine, str(folder)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


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


def warm_up(pool: Any, numbers: tuple[int, ...] = NUMBERS, during: Any = None) -> list[bool]:
    """Compile by the executor, see right results here; returns which kernels this process found in the cache."""
    store.hash = None
    hits: list[bool] = []
    knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
    with tw.AsyncCompileMode(pool):
        for n in numbers:
            store.warmup(np.int32, n, grid=GRID)
        if during is not None:
            during()
    for n in numbers:
        out = np.zeros(1, np.int32)
        store[GRID](out, n)
        assert out[0] == n
    assert len(hits) == len(numbers), "each kernel was taken from the cache or compiled once"
    return hits
