"""Grids on many threads: every program once, in order, from anywhere, also after a fork."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from driver_kernels import ADD, COUNT, Jit, entry

from tilewright.runtime.drivers.cpu import launcher
from tilewright.runtime.drivers.cpu.launcher import is_native, run_grid, set_num_threads
from tilewright.runtime.drivers.cpu.records import launch_record
from tilewright.support.system import SYSTEM

forks = pytest.mark.skipif(not SYSTEM.can_fork, reason="nothing is forked here")

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")

IN_ORDER = """
define i64 @kernel(ptr %launch, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %pt = getelementptr i8, ptr %launch, i64 24
  %turn = load ptr, ptr %pt
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %mine ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %wait, label %done
wait:
  %now = load atomic i64, ptr %turn seq_cst, align 8
  %ready = icmp eq i64 %now, %i
  br i1 %ready, label %mine, label %wait
mine:
  %next = add i64 %i, 1
  store atomic i64 %next, ptr %turn seq_cst, align 8
  br label %loop
done:
  ret i64 %end
}
"""
"""Program i waits for program i - 1."""


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    set_num_threads(4)
    yield
    set_num_threads(SYSTEM.usable_cpus())


def counted(programs: int, *, work: int = 20, threads: int = 0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    counts = np.zeros(programs, np.int64)
    record = launch_record((programs,), [counts.ctypes.data, work], ["*i64", "i64"])
    run_grid(entry(COUNT), record, programs, scratch_bytes=64, num_threads=threads)
    return counts


@pytest.mark.quick
@pytest.mark.parametrize("programs", [1, 2, 3, 4, 5, 31, 32, 33, 100, 1023])
@pytest.mark.parametrize("threads", [0, 1, 2, 3, 7])
def test_every_program_runs_once(programs: int, threads: int) -> None:
    for _ in range(5):
        assert (counted(programs, threads=threads) == 1).all()


def test_no_programs() -> None:
    counted(0)


def test_back_to_back_jobs_of_different_shapes() -> None:
    """Late workers of one job must not touch the next."""
    rng = np.random.default_rng(1)
    for programs in rng.integers(1, 40, 3000):
        assert (counted(int(programs), work=int(programs) % 3) == 1).all()


def test_large_scratch_is_apart_for_each_thread() -> None:
    counts = np.zeros(64, np.int64)
    record = launch_record((64,), [counts.ctypes.data, 2000], ["*i64", "i64"])
    for size in (64, 1 << 20, 100, 1 << 16, 0x10001):
        counts[:] = 0
        run_grid(entry(COUNT), record, 64, scratch_bytes=size)
        assert (counts == 1).all()


def test_too_much_scratch_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        run_grid(entry(ADD), launch_record((1,), [], []), 1, scratch_bytes=1 << 60)
    assert (counted(8) == 1).all()


def test_too_many_programs_are_refused() -> None:
    with pytest.raises(OverflowError, match="programs"):
        run_grid(entry(ADD), launch_record((1,), [], []), 2**93)


def test_programs_may_wait_for_earlier_ones() -> None:
    turn = np.zeros(1, np.int64)
    record = launch_record((500,), [turn.ctypes.data], ["*i64"])
    for _ in range(20):
        turn[0] = 0
        run_grid(entry(IN_ORDER), record, 500)
        assert turn[0] == 500


def test_many_python_threads_at_once() -> None:
    kernel = Jit(COUNT, "counts work", {"counts": "*i64", "work": "i64"}, scratch=64)
    failures: list[str] = []
    rounds = 300

    def launch(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(rounds):
            programs = int(rng.integers(1, 50))
            counts = np.zeros(programs + 1, np.int64)
            result = kernel.native[(programs,)](counts, int(rng.integers(1, 3000)))
            if result is not kernel.result or counts.tolist() != [1] * programs + [0]:
                failures.append(f"{programs}: {counts}")

    threads = [threading.Thread(target=launch, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [100, pytest.param(400, marks=pytest.mark.long)])
def test_installing_while_others_launch(blocks: int) -> None:
    kernel = Jit(COUNT, "counts work BLOCK", {"counts": "*i64", "work": "i64"}, scratch=64)
    failures: list[int] = []
    stop = threading.Event()

    def launch() -> None:
        counts = np.zeros(4, np.int64)
        while not stop.is_set():
            counts[:] = 0
            kernel.native[(4,)](counts, 5, BLOCK=7)
            if counts.tolist() != [1] * 4:
                failures.append(1)

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    counts = np.zeros(4, np.int64)
    for block in range(blocks):
        kernel.native[(4,)](counts, 5, BLOCK=block)
        if block % 25 == 0:
            kernel.native.clear()
    stop.set()
    for thread in threads:
        thread.join(60)

    assert failures == []
    assert counts.tolist() == [blocks] * 4


def test_the_gil_is_released_by_long_launches() -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            time.sleep(0.001)
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(3):
        counted(1, work=100_000_000)
    done.set()
    thread.join()

    assert ticks > (6 if os.name == "nt" else 20), "one between two launches, and at most one more at each end"


def _in_child(queue: multiprocessing.Queue[bool]) -> None:
    queue.put(all((counted(64, work=1000) == 1).all() for _ in range(50)))


@forks
def test_the_pool_works_in_the_child_of_a_fork() -> None:
    assert (counted(64) == 1).all()
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        queue = context.Queue()
        child = context.Process(target=_in_child, args=(queue,))
        child.start()
        assert queue.get(timeout=60) is True
        child.join(60)
        assert child.exitcode == 0
    assert (counted(64) == 1).all()


@forks
def test_fork_while_another_thread_launches() -> None:
    stop = threading.Event()

    def launch() -> None:
        while not stop.is_set():
            counted(16, work=20_000)

    thread = threading.Thread(target=launch)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0 if all((counted(32, work=500) == 1).all() for _ in range(5)) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


SCRIPT = """
import sys, threading
sys.path.insert(0, {folder!r})
import numpy as np
from test_pool import counted, set_num_threads
set_num_threads(3)
assert (counted(64, work=1000) == 1).all()
def forever():
    while True:
        counted(64, work=100000)
threading.Thread(target=forever, daemon=True).start()
counted(8)
"""


@pytest.mark.spared
@pytest.mark.parametrize("times", [4, pytest.param(20, marks=(pytest.mark.slow, pytest.mark.long))])
def test_python_exits_while_workers_spin_and_launch(times: int) -> None:
    script = SCRIPT.format(folder=str(Path(__file__).parent))
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_without_the_native_runtime_grids_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_ready", lambda: None)

    assert (counted(16) == 1).all()
