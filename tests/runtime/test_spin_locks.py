"""Programs that wait for one another: they run as long as no more wait than there are threads, and never hang."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from fresh_caches import cache_without_kernels
from tilewright.runtime.drivers.cpu.launcher import is_native

Run = Callable[..., list[str]]

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here, and so no threads")

PROLOGUE = """
import os, signal, sys, threading, time
import numpy as np
import tilewright as tw
import tilewright.language as tl

@tw.jit
def waits_for_next(locks, order):
    pid = tl.program_id(0)
    while tl.atomic_cas(locks + pid + 1, 1, 1) != 1:
        pass
    tl.store(order + pid, tl.atomic_add(locks + tl.num_programs(0) + 1, 1))
    tl.atomic_xchg(locks + pid, 1)

def chain(programs, **options):
    # program i waits until program i + 1 is done; the last one need not wait
    locks, order = np.zeros(programs + 2, np.int32), np.full(programs, -1, np.int32)
    locks[programs] = 1
    waits_for_next[(programs,)](locks, order, **options)
    assert order.tolist() == list(range(programs))[::-1], order
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The output of a process with this program; it is killed after a while.

    All programs have one name, so the kernel of the prologue is compiled by the first of them.
    """
    file = tmp_path_factory.mktemp("programs") / "program.py"  # kernels need a source

    def words(script: str, **environment: str) -> list[str]:
        file.write_text(PROLOGUE + textwrap.dedent(script))
        done = subprocess.run(
            [sys.executable, str(file)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env={**os.environ, "TILEWRIGHT_NUM_THREADS": "4", "TILEWRIGHT_SPIN_SECONDS": "60", **environment},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()

    return words


@pytest.mark.spared
def test_as_many_programs_as_threads_may_wait_for_later_ones(run: Run) -> None:
    script = """
        for _ in range(20):
            for programs in (1, 2, 3, 4):
                chain(programs)
        chain(2, num_threads=2)
        print("done")
    """
    assert run(script) == ["done"]


@pytest.mark.spared
def test_pairs_of_programs_wait_for_each_other_in_a_long_grid(run: Run) -> None:
    """Even chunks would begin with programs far from those that they wait for."""
    script = """
        @tw.jit
        def meets(flags, out):
            pid = tl.program_id(0)
            tl.atomic_xchg(flags + pid, 1)
            while tl.load(flags + (pid ^ 1), volatile=True) == 0:
                pass
            tl.store(out + pid, pid)

        for programs in (2, 64, 1000) * 3 + (30_000,):
            flags, out = np.zeros(programs, np.int32), np.zeros(programs, np.int32)
            meets[(programs,)](flags, out, num_threads=2)
            assert (out == np.arange(programs)).all()
        print("done")
    """
    assert run(script) == ["done"]


@pytest.mark.spared
def test_programs_that_wait_too_long_end_with_an_error_that_says_where(run: Run) -> None:
    script = """
        started = time.monotonic()
        try:
            chain(5)                    # one more than threads
        except tw.DeadlockError as error:
            assert isinstance(error, RuntimeError)
            took, text = time.monotonic() - started, str(error)
            assert 0.9 < took < 60, took
            assert error.kernel == "waits_for_next" and error.program[0] < 4 and error.program[1:] == (0, 0), error
            assert error.seconds == 1
            assert "all programs of waits_for_next that run are waiting for others" in text, text
            assert "while tl.atomic_cas(locks + pid + 1, 1, 1) != 1:" in text, text
            assert "program.py:10" in text, text
            assert "TILEWRIGHT_NUM_THREADS" in text and "TILEWRIGHT_SPIN_SECONDS" in text, text
        else:
            raise SystemExit("no error")
        chain(4)
        for threads in (1, 3):
            try:
                chain(threads + 1, num_threads=threads)
            except tw.DeadlockError:
                chain(threads, num_threads=threads)
                print(threads)
    """
    assert run(script, TILEWRIGHT_SPIN_SECONDS="1") == ["1", "3"]


@pytest.mark.spared
def test_a_program_that_works_while_all_others_wait_is_left_alone(run: Run) -> None:
    script = """
        @tw.jit
        def waits_for_work(flag, x, n):
            if tl.program_id(0) == 3:
                v = tl.load(x)
                for i in range(n):
                    v = (v * 5 + 1) & 1023
                tl.store(x, v)
                tl.atomic_xchg(flag, 1)
            else:
                while tl.atomic_cas(flag, 1, 1) != 1:
                    pass

        x, flag = np.ones(1, np.int32), np.zeros(1, np.int32)
        took, turns = 0, 3 * 10**7
        while took < 1.5 and turns < 2**31 - 1:     # half as long again as programs may wait
            turns = min(2**31 - 1, int(1.7 * turns / took)) if took else turns
            flag[:] = 0
            started = time.monotonic()
            waits_for_work[(4,)](flag, x, turns)
            took = time.monotonic() - started
        print("done")
    """
    assert run(script, TILEWRIGHT_SPIN_SECONDS="1") == ["done"]


@pytest.mark.spared
def test_a_program_that_has_not_looked_since_others_ended_does_not_count_as_waiting(run: Run) -> None:
    """A turn of its loop takes long, as it does where a thread is interrupted: what it saw may be old."""
    script = """
        @tw.jit
        def waits_slowly(flag, out, work, turn):
            if tl.program_id(0) == 1:
                v = tl.load(out + 1)
                for i in range(work):
                    v = (v * 5 + 1) & 1023
                tl.store(out + 1, v)
                tl.atomic_xchg(flag, 1)
            else:
                seen = tl.atomic_cas(flag, 1, 1)
                while seen != 1:
                    seen = tl.atomic_cas(flag, 1, 1)
                    for i in range(turn):
                        seen = (seen * seen * seen) & 1023
                tl.store(out, seen)

        flag, out = np.zeros(1, np.int32), np.zeros(2, np.int32)
        launch = waits_slowly[(2,)]
        launch(flag, out, 1, 1)
        turns, flag[:] = 10**8, 0
        started = time.monotonic()
        launch(flag, out, turns, 1)
        a_second = int(turns / (time.monotonic() - started))
        flag[:] = 0
        launch(flag, out, 2 * a_second, a_second // 20)
        assert flag[0] == 1 and out[0] == 1, (flag, out)
        kernel = waits_slowly.warmup(flag, out, turns, turns, grid=(2,))
        print(len(kernel.spins))
    """
    assert run(script, TILEWRIGHT_SPIN_SECONDS="1") == ["1"]


@pytest.mark.spared
def test_the_limit_is_a_setting(run: Run) -> None:
    script = """
        def fails():
            try:
                chain(5)
            except tw.DeadlockError:
                return True

        tw.knobs.tilewright.spin_seconds = 1
        assert fails()
        tw.knobs.tilewright.spin_seconds = 0        # no limit: only a signal ends it
        signal.signal(signal.SIGALRM, lambda number, frame: (_ for _ in ()).throw(TimeoutError()))
        signal.setitimer(signal.ITIMER_REAL, 1.3)
        try:
            fails()
        except TimeoutError:
            print("done")
    """
    assert run(script) == ["done"]


@pytest.mark.spared
def test_waiting_launches_of_several_threads_take_turns(run: Run) -> None:
    """The pool runs one launch at a time: alone, the second would wait for programs that nobody starts."""
    script = """
        failures = []
        def work():
            try:
                for _ in range(30):
                    chain(4)
            except BaseException as error:
                failures.append(error)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join(200)
        print(failures or "done")
    """
    assert run(script) == ["done"]


def test_a_lock_around_work_is_held_by_one_program_at_a_time(run: Run) -> None:
    script = """
        @tw.jit
        def adds(lock, total, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            while tl.atomic_cas(lock, 0, 1) == 1:
                pass
            tl.store(total + i, tl.load(total + i) + 1)
            tl.debug_barrier()
            tl.atomic_xchg(lock, 0)

        total, lock = np.zeros(64, np.int32), np.zeros(1, np.int32)
        for _ in range(3):
            adds[(2000,)](lock, total, BLOCK=64)
        assert (total == 6000).all(), total
        print("done")
    """
    assert run(script) == ["done"]


@tw.jit
def spin_on_cas(p):
    while tl.atomic_cas(p, 1, 1) != 1:
        pass


@tw.jit
def spin_on_volatile(p):
    v = tl.load(p, volatile=True)
    while v == 0:
        v = tl.load(p, volatile=True)


@tw.jit(noinline=True)
def is_set(p):
    return tl.atomic_add(p, 0) == 1


@tw.jit
def spin_in_function(p):
    done = is_set(p)
    while not done:
        done = is_set(p)


@tw.jit
def queue(p):
    i = tl.atomic_add(p, 1)
    while i < 10:
        tl.store(p + 1 + i, i)
        i = tl.atomic_add(p, 1)


@tw.jit
def newton(p):
    v = tl.load(p)
    while v > 1:
        v = v // 2
    tl.store(p, v)


@tw.jit
def counts(p):
    for _ in range(3):
        tl.atomic_add(p, 1)


@pytest.mark.parametrize(
    ("kernel", "waits", "spins"),
    [
        (spin_on_cas, True, 1),
        (spin_on_volatile, True, 1),
        (spin_in_function, True, 0),
        (queue, True, 0),  # its turns are work: however long they take, nobody is stuck
        (newton, False, 0),
        (counts, False, 0),
    ],
)
def test_the_compiler_finds_the_loops_that_wait(kernel: tw.JITFunction, waits: bool, spins: int) -> None:
    compiled = kernel.warmup(np.ones(16, np.int32), grid=(1,))
    assert (compiled.waits, len(compiled.spins)) == (waits, spins)


@pytest.mark.spared
def test_a_kernel_from_the_cache_still_knows_that_it_waits(run: Run, tmp_path: Path) -> None:
    script = """
        for _ in range(10):
            chain(4)
        kernel = waits_for_next.warmup(np.zeros(4, np.int32), np.zeros(4, np.int32), grid=(1,))
        print(kernel.waits, kernel.spins[0][0][1])
    """
    cache = str(cache_without_kernels(tmp_path / "cache"))
    for _ in range(2):
        assert run(script, TRITON_CACHE_DIR=cache) == ["True", "10"]
