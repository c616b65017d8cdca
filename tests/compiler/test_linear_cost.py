"""Compiling costs a constant amount of work per op: counted in calls of Python functions and in lines of LLVM IR."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG

SIZES = (100, 400, 800)
MAX_GROWTH = 1.15
"""Max growth of the work per op when there are twice as many ops."""


@tw.jit
def powers_behind_a_mask(x, y, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    value = tl.load(x + i, mask=i < n)
    for _ in tl.static_range(N):
        value = value * value
    tl.store(y + i, value, mask=i < n)


@tw.jit
def sums_of_two_before(x, y, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    older = tl.load(x + i, mask=i < n)
    newer = tl.load(x + i + 1, mask=i + 1 < n)
    for _ in tl.static_range(N):
        older, newer = newer, older + newer
    tl.store(y + i, newer, mask=i < n)


@tw.jit
def masked_loads(x, y, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float32)
    for k in tl.static_range(N // 4):
        total += tl.load(x + k * 64 + i, mask=i < n - k)
    tl.store(y + i, total)


@tw.jit
def loads_and_stores(x, y, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    for k in tl.static_range(N // 8):
        tl.store(y + k * 64 + i, tl.load(x + k * 64 + i), mask=i < n)


@tw.jit
def reductions(x, y, n, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, 64))
    total = 0.0
    for _ in tl.static_range(N // 4):
        total += tl.sum(value * total, 0)
    tl.store(y, total)


@tw.jit
def choices(x, y, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    value = tl.load(x + i)
    for k in tl.static_range(N // 4):
        value = tl.where((i + k) % 3 == 0, value + 1, value * 2)
    tl.store(y + i, value)


@tw.jit
def broadcasts(x, y, n, N: tl.constexpr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    rows, tile = tl.load(x + i), tl.zeros((16, 16), tl.float32)
    for k in tl.static_range(N // 4):
        tile = tile * rows + tl.load(x + j + k)
    tl.store(y + i * 16 + j, tile)


@tw.jit
def branches(x, y, n, N: tl.constexpr):
    for k in tl.static_range(N // 8):
        if n > k:
            tl.store(y + k, tl.load(x + k) + 1)


@tw.jit
def loops(x, y, n, N: tl.constexpr):
    i = tl.arange(0, 64)
    for k in tl.static_range(N // 16):
        value = tl.load(x + i)
        for step in range(n):
            value = value * 2 + step
        tl.store(y + k * 64 + i, value)


@tw.jit
def scalars(x, y, n, N: tl.constexpr):
    value = n
    for k in tl.static_range(N):
        value = value * 3 + k
    tl.store(y + tl.arange(0, 64), value.to(tl.float32))


SHAPES = (
    powers_behind_a_mask,
    sums_of_two_before,
    masked_loads,
    loads_and_stores,
    reductions,
    choices,
    broadcasts,
    branches,
    loops,
    scalars,
)


def calls_during(work: Callable[[], Any]) -> tuple[int, Any]:
    """The number of Python functions that `work` calls, and its result."""
    count = 0

    def called(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return count, result


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [SIZES[:2], pytest.param(SIZES, marks=LONG)], ids=str)
@pytest.mark.parametrize("kernel", SHAPES, ids=lambda kernel: kernel.__name__)
def test_work_per_op_does_not_grow(kernel: Any, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    kernel = tw.jit(kernel.fn)  # without what other sizes of this test have compiled
    x = np.zeros(100, np.float32)
    work: dict[int, list[float]] = {}
    for size in (sizes[0] // 2, *sizes):  # the first one warms up
        calls, compiled = calls_during(lambda size=size: kernel.warmup(x, x, 5, size, grid=(1,)))
        work[size] = [calls / size, compiled.asm["llir"].count("\n") / size]
    for small, large in pairwise(sizes):
        growth = MAX_GROWTH ** math.log2(large / small)
        for before, after in zip(work[small], work[large], strict=True):
            assert after <= growth * before, f"calls and lines per op: {work}"
