"""Grids on the threads of another library, as OpenMP has them: here on those that a stand-in for it starts."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from threading import Thread, get_ident

import numpy as np
import pytest
from driver_kernels import COUNT, NOTE_CHUNK, entry
from test_pool import IN_ORDER, counted, forks

from tilewright.runtime.drivers.cpu.launcher import is_native, run_grid
from tilewright.runtime.drivers.cpu.native.structs import POOL, TABLE
from tilewright.runtime.drivers.cpu.process import native_runtime
from tilewright.runtime.drivers.cpu.records import launch_record

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
PARALLEL = ctypes.CFUNCTYPE(None, BODY, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
ANSWER = ctypes.CFUNCTYPE(ctypes.c_int)


class OpenMP:
    """A library of parallel regions.

    Attributes:
        size: how many threads it says that the caller has.
        others: how many of them, but for the caller, regions get; fewer than there are where a region is in another.
        is_late: whether the others come when the caller has ended its part.
        regions: how many there were.
    """

    def __init__(self) -> None:
        self.size, self.others, self.is_late, self.regions = 3, 2, False, 0
        self._numbers: dict[int, int] = {}
        self.functions = (
            PARALLEL(self._parallel),
            ANSWER(lambda: self._numbers.get(get_ident(), 0)),
            ANSWER(lambda: self.size),
        )

    def _parallel(self, body: Callable[[int], None], data: int, wanted: int, flags: int) -> None:
        assert (wanted, flags) == (0, 0)  # all threads: GNU's library ends those that a smaller team has not
        self.regions += 1
        threads = [Thread(target=self._take_part, args=(number + 1, body, data)) for number in range(self.others)]
        for act in [lambda: body(data), *(thread.start for thread in threads)][:: 1 if self.is_late else -1]:
            act()
        for thread in threads:
            thread.join()

    def _take_part(self, number: int, body: Callable[[int], None], data: int) -> None:
        self._numbers[get_ident()] = number
        body(data)


@pytest.fixture
def openmp() -> Iterator[OpenMP]:
    runtime, library = native_runtime(), OpenMP()
    assert runtime
    runtime.use_team(*(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in library.functions))
    yield library
    runtime.use_team(0, 0, 0)


def pool(field: str) -> int:
    runtime = native_runtime()
    assert runtime
    return POOL.read(runtime.pool, field)


@pytest.mark.parametrize("others", [0, 1, 2, 5])
@pytest.mark.parametrize("is_late", [False, True])
def test_every_program_runs_once(openmp: OpenMP, others: int, is_late: bool) -> None:
    """Teams are smaller than was said within another region, and larger where a launch has little to do."""
    openmp.others, openmp.is_late = others, is_late
    for programs in (2, 3, 7, 64, 1023):
        for allowed in (0, 2):
            assert (counted(programs, threads=allowed) == 1).all()
    assert openmp.regions == 10


def test_threads_of_the_team_take_part_and_no_others(openmp: OpenMP) -> None:
    generation = pool("generation")
    counted(300, work=20_000)
    while pool("seats") < 2:  # the first to come may have done all of it
        counted(300, work=20_000)
    assert pool("generation") == generation


def test_short_launches_are_shared_at_once(openmp: OpenMP) -> None:
    """The pool's threads are woken for short ones only when several follow one another; a team is awake as a rule."""
    runtime, counts = native_runtime(), np.zeros(16, np.int64)
    assert runtime
    record = launch_record((16,), [counts.ctypes.data, 20], ["*i64", "i64"])
    little, much = (TABLE.read(runtime.table, field) for field in ("hot_ticks", "cold_ticks"))
    runtime.set("alone_until", -(2**40))
    for work, regions in ((little - 1, 0), (little + 1, 1), (much - 1, 2)):
        assert runtime.execute(entry(COUNT), record, 16, 64, 0, ctypes.byref(ctypes.c_int64(work)))
        assert openmp.regions == regions
        runtime.set("alone_until", -(2**40))
    assert (counts == 3).all()


@pytest.mark.parametrize(
    ("is_short", "sizes"),
    [
        (True, [90, 90, 90]),
        (False, [11] * 8 + [2]),
    ],
)
def test_each_thread_has_a_part(openmp: OpenMP, is_short: bool, sizes: list[int]) -> None:
    """Long parts are claimed bit by bit, so that who has done his own helps the others."""
    runtime, noted = native_runtime(), np.zeros(270, np.int64)
    assert runtime
    record = launch_record((270,), [noted.ctypes.data, 0], ["*i64", "i64"])
    work = TABLE.read(runtime.table, "cold_ticks") * (1 if is_short else 100)
    cost = ctypes.byref(ctypes.c_int64(work * 16 // 270))
    runtime.set("alone_until", -(2**40))
    assert runtime.execute(entry(NOTE_CHUNK), record, 270, 64, 0, cost)
    assert [int(size) for size in noted if size] == (sizes if is_short else sizes * 3)


def test_the_size_of_the_team_counts_in_each_launch(openmp: OpenMP) -> None:
    openmp.size = 1
    assert (counted(64) == 1).all()
    assert openmp.regions == 0
    openmp.size = 2
    assert (counted(64) == 1).all()
    assert openmp.regions == 1


def test_programs_that_wait_for_others_have_threads_of_the_pool(openmp: OpenMP) -> None:
    """A team may be smaller than was said, and then the one that they wait for would never run."""
    openmp.others, turn = 0, np.zeros(1, np.int64)
    run_grid(entry(IN_ORDER), launch_record((100,), [turn.ctypes.data], ["*i64"]), 100, waits=True)
    assert turn[0] == 100
    assert openmp.regions == 0


def test_launches_within_a_launch_run_alone(openmp: OpenMP) -> None:
    """As where a handler of a signal launches: the pool has one job at a time."""
    runtime = native_runtime()
    assert runtime
    POOL.write(runtime.pool, "lock", 1)
    try:
        assert (counted(64) == 1).all()
    finally:
        POOL.write(runtime.pool, "lock", 0)
    assert openmp.regions == 0


@forks
def test_children_of_a_fork_have_threads_of_their_own(openmp: OpenMP) -> None:
    """OpenMP would wait for threads that are gone."""
    assert (counted(64) == 1).all()
    child = os.fork()
    if child == 0:
        is_right = all((counted(64, work=500) == 1).all() for _ in range(5))
        os._exit(0 if is_right and openmp.regions == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
