"""`atomic_poll`: what arrives, what does not arrive in time, and the clock that says so."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module

sys.path.append(str(Path(__file__).parents[1] / "nvidia"))
from simulated import run

N = 16
slow = pytest.mark.slow


@tw.jit
def polling(flags, out, timeout, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.atomic_poll(flags + i, 3, sem="relaxed", timeout_ns=timeout))


@tw.jit
def waiting(flags, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.atomic_poll(flags + i, 3))


def flags(kind: Any = np.int32) -> Any:
    made = np.full(N, 3, kind)
    made[5] = 1
    return made


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("kind", [np.int16, pytest.param(np.int32, marks=slow), pytest.param(np.uint64, marks=slow)])
def test_what_is_not_there_in_time_is_false(kind: Any, interpret: bool) -> None:
    out, kernel = np.zeros(N, np.bool_), tw.jit(polling.fn, interpret=interpret)
    for timeout in (0, 2_000_000):
        kernel[(1,)](flags(kind), out, timeout, N=N)  # compiled
        start = time.monotonic_ns()
        kernel[(1,)](flags(kind), out, timeout, N=N)
        assert time.monotonic_ns() - start >= timeout
        np.testing.assert_array_equal(out, flags(kind) == 3)


def test_other_threads_may_store_meanwhile() -> None:
    found, out = flags(), np.zeros(N, np.bool_)
    thread = threading.Timer(0.02, lambda: found.__setitem__(5, 3))
    thread.start()
    polling[(1,)](found, out, 10**10, N=N)
    thread.join()
    assert out.all()


@pytest.mark.parametrize("stage", ["ttir", "ttcir"])
def test_the_text_means_the_same(stage: str) -> None:
    found, out = flags(), np.zeros(N, np.bool_)
    run_ir(parse_module(polling.warmup(found, out, 1000, N=N, grid=(1,)).asm[stage], stage), [found, out, 1000])
    np.testing.assert_array_equal(out, found == 3)


@pytest.mark.quick
@pytest.mark.parametrize("timeout", [-1, 0.5, (1, 2)])
def test_times_are_whole_and_not_negative(timeout: Any) -> None:
    @tw.jit
    def kernel(flags, TIMEOUT: tl.constexpr):
        tl.atomic_poll(flags, 3, timeout_ns=TIMEOUT)

    with pytest.raises(tw.CompilationError, match="timeout_ns"):
        kernel[(1,)](flags(), timeout)


def test_bytes_are_refused() -> None:
    with pytest.raises(tw.CompilationError, match="integers of 16, 32 or 64 bits"):
        waiting[(1,)](flags(np.int8), np.zeros(N, np.bool_), N=N)


@slow
@pytest.mark.parametrize("kind", [np.int16, np.int32])
def test_gpus_wait_without_a_timeout(kind: Any) -> None:
    assert run(waiting, (1,), np.full(N, 3, kind), np.zeros(N, np.bool_), N=N, capability=90)[-1].all()
    with pytest.raises(tw.CompilationError, match="timeout_ns: the threads of a program read the time one by one"):
        run(polling, (1,), flags(kind), np.zeros(N, np.bool_), 5, N=N, capability=90)


@pytest.mark.parametrize("interpret", [False, True])
def test_the_clock(interpret: bool) -> None:
    @tw.jit
    def kernel(out):
        tl.store(out, tl.extra.cuda.globaltimer())
        tl.store(out + 1, tl.extra.cuda.globaltimer())

    out = np.zeros(2, np.int64)
    start = time.monotonic_ns()
    tw.jit(kernel.fn, interpret=interpret)[(1,)](out)
    assert start <= out[0] <= out[1] <= time.monotonic_ns()
