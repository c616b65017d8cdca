"""Launches shared with the pool's threads, by the work that is expected, what came before, and what was lost."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from driver_kernels import COUNT, NOTE_CHUNK, entry

from tilewright.runtime.drivers.cpu.launcher import is_native, set_num_threads
from tilewright.runtime.drivers.cpu.native.structs import POOL, TABLE
from tilewright.runtime.drivers.cpu.process import NativeRuntime, native_runtime
from tilewright.runtime.drivers.cpu.records import launch_record
from tilewright.support.system import SYSTEM

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")

PROGRAMS = 16
LONG_AGO = -(2**40)
FIELDS = ("gil_ticks", "hot_ticks", "cold_ticks", "alone_ticks", "alone_ended", "lost_ticks", "alone_until")


@pytest.fixture
def runtime() -> Iterator[NativeRuntime]:
    """With two threads and no history, work of 1000 ticks worth sharing, of 1e9 worth waking threads."""
    found = native_runtime()
    assert found
    before = {field: TABLE.read(found.table, field) for field in FIELDS}
    set_num_threads(2)
    fresh = {"hot_ticks": 1000, "cold_ticks": 10**9, "alone_ended": LONG_AGO, "alone_until": LONG_AGO}
    for field, value in {**dict.fromkeys(FIELDS, 0), **fresh}.items():
        found.set(field, value)
    yield found
    for field, value in before.items():
        found.set(field, value)
    set_num_threads(SYSTEM.usable_cpus())


def all_sleep(runtime: NativeRuntime) -> bool:
    return POOL.read(runtime.pool, "sleepers") >= POOL.read(runtime.pool, "workers")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def come_before(runtime: NativeRuntime) -> None:
    """As if launches right before had been almost enough to wake the threads."""
    runtime.set("alone_ticks", TABLE.read(runtime.table, "cold_ticks"))
    runtime.set("alone_ended", 2**62)


def launch(runtime: NativeRuntime, cost: int, *, programs: int = PROGRAMS, work: int = 20) -> tuple[bool, int]:
    """Was it shared, and what are 16 programs said to cost afterwards?"""
    counts = np.zeros(programs, np.int64)
    found = execute(runtime, COUNT, cost, counts, work)
    assert (counts == 1).all()
    return found


def execute(runtime: NativeRuntime, kernel: str, cost: int, array: np.ndarray[Any, Any], work: int) -> tuple[bool, int]:
    """A program for each element of the array; gives what `launch` gives."""
    time.sleep(0.02)  # a thread that was woken may still be about to notice
    wait_until(lambda: all_sleep(runtime))
    record = launch_record(array.shape, [array.ctypes.data, work], ["*i64", "i64"])
    known = ctypes.c_int64(cost)
    jobs = POOL.read(runtime.pool, "generation")
    assert runtime.execute(entry(kernel), record, len(array), 64, 0, ctypes.byref(known))
    return POOL.read(runtime.pool, "generation") != jobs, known.value


def test_much_and_unknown_work_wakes_the_threads(runtime: NativeRuntime) -> None:
    assert launch(runtime, 2 * 10**9)[0]
    assert launch(runtime, -1)[0]
    assert not launch(runtime, 999)[0]


def test_launches_on_the_heels_of_one_another_wake_the_threads(runtime: NativeRuntime) -> None:
    assert [launch(runtime, 4 * 10**8)[0] for _ in range(3)] == [False, False, True]


def test_launches_far_apart_do_not(runtime: NativeRuntime) -> None:
    for _ in range(6):
        assert not launch(runtime, 4 * 10**8)[0]
        runtime.set("alone_ended", LONG_AGO)


def test_launches_that_sharing_made_slower_run_alone_for_a_while(runtime: NativeRuntime) -> None:
    runtime.set("cold_ticks", 3000)

    def is_shared() -> bool:
        come_before(runtime)
        return launch(runtime, 2000, work=200_000)[0]

    assert is_shared()
    assert TABLE.read(runtime.table, "alone_until") > LONG_AGO
    runtime.set("alone_until", 2**62)
    assert not is_shared()
    runtime.set("alone_until", LONG_AGO)
    assert is_shared()


def test_what_sharing_took_does_not_raise_the_cost(runtime: NativeRuntime) -> None:
    runtime.set("cold_ticks", 3000)
    come_before(runtime)
    assert launch(runtime, 2000, work=200_000) == (True, 2000)


def test_one_slow_launch_raises_the_cost_by_less_than_twice(runtime: NativeRuntime) -> None:
    shared, cost = launch(runtime, 500, work=200_000)
    assert not shared
    assert 500 < cost <= 500 + (3 * 500 + 4096) // 4


def chunks(runtime: NativeRuntime, cost: int, programs: int) -> list[int]:
    """The numbers of programs that threads took at once, from the first program to the last."""
    sizes = np.zeros(programs, np.int64)
    come_before(runtime)
    assert execute(runtime, NOTE_CHUNK, cost, sizes, 0)[0]
    return [int(size) for size in sizes if size]


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_short_work_is_divided_evenly(runtime: NativeRuntime, threads: int) -> None:
    """One chunk for each thread, all of one size but the last, which is what remains."""
    set_num_threads(threads)
    for programs in (2, 3, 7, 8, 9, 50, 64, 1023):
        *others, last = chunks(runtime, 10**6, programs)
        size = math.ceil(programs / min(threads, programs))
        assert others == [size] * ((programs - 1) // size)
        assert last == programs - sum(others)


def test_half_of_long_work_is_divided_as_threads_come(runtime: NativeRuntime) -> None:
    """A quarter of the programs for each of two threads, then sixteenths."""
    assert chunks(runtime, 2 * 10**9, 160) == [40, 40, *[10] * 8]


@pytest.mark.parametrize(("work", "threads"), [(1100, 2), (1600, 3), (2100, 4), (2600, 5), (9000, 8)])
def test_each_thread_gets_half_of_what_is_worth_sharing(runtime: NativeRuntime, work: int, threads: int) -> None:
    """A launch uses as many of eight threads as have 500 ticks of the work each, and at least two."""
    set_num_threads(8)
    assert chunks(runtime, work // 4, 64)[0] == math.ceil(64 / threads)
