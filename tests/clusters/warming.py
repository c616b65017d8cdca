"""Kernels that an executor compiles, and what is seen of it here."""

from __future__ import annotations

from typing import Any

import numpy as np
from cluster_kernels import store

import tilewright as tw
from tilewright import knobs

NUMBERS = tuple(range(2, 14))
GRID = (1,)


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
