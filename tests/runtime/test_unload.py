"""The machine code of kernels is unmapped when nothing refers to the kernel, and never while it runs."""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux what is mapped")


def make(rounds: int) -> Any:
    @tw.jit
    def kernel(x, ROUNDS: tl.constexpr):
        i = tl.program_id(0)
        value = tl.load(x + i)
        for _ in range(ROUNDS):
            value = value * 3 + 1
        tl.store(x + i, value)

    return kernel


def is_mapped(address: int) -> bool:
    ranges = (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
    return any(int(low, 16) <= address < int(high, 16) for low, high in ranges)


def expected(programs: int, rounds: int) -> np.ndarray:
    value = np.arange(programs, dtype=np.int64)
    for _ in range(rounds):
        value = (value * 3 + 1) & 0xFFFFFFFF
    return value.astype(np.uint32).view(np.int32)


@pytest.mark.usefixtures("small_heap")
@pytest.mark.spared
def test_code_goes_with_the_last_reference() -> None:
    kernel = make(5)
    x = np.arange(4, dtype=np.int32)
    for _ in range(3):  # the last ones without Python
        compiled = kernel[(4,)](x, ROUNDS=5)
    address = compiled.function
    bound = kernel[(4,)]
    kernel.device_caches.clear()
    del compiled, kernel
    gc.collect()
    assert is_mapped(address)  # the launch that was bound still knows it
    bound(x, ROUNDS=5)
    del bound
    gc.collect()
    assert not is_mapped(address)


def test_a_call_of_del_unmaps_nothing() -> None:
    x = np.arange(4, dtype=np.int32)
    compiled = make(5)[(4,)](x, ROUNDS=5)
    compiled.__del__()
    assert is_mapped(compiled.function)
    compiled[(4,)](x, None)
    assert (x == expected(4, 10)).all()


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.slow), pytest.param(100, marks=LONG)])
def test_launches_under_way_keep_the_code(rounds: int) -> None:
    """Threads launch kernels whose last other references go meanwhile."""
    failures: list[str] = []
    interval = sys.getswitchinterval()

    def launch(bounds: list[Any], programs: int) -> None:
        x = np.arange(programs, dtype=np.int32)
        bounds.pop()(x, ROUNDS=2000)
        if not (x == expected(programs, 2000)).all():
            failures.append("a wrong result")

    sys.setswitchinterval(1e-5)
    try:
        for number in range(rounds):
            kernel = make(number)
            kernel[(1,)](np.zeros(1, np.int32), ROUNDS=2000)
            bounds = [kernel[(64,)] for _ in range(4)]
            threads = [threading.Thread(target=launch, args=(bounds, 64)) for _ in bounds]
            for thread in threads:
                thread.start()
            kernel.device_caches.clear()
            del kernel
            gc.collect()
            for thread in threads:
                thread.join(timeout=60)
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
