"""Signals while kernels run: Python handles them at once, and when a handler raises, the launch ends.

Each test sends its signals to a process of its own, which prints what happened; wall-clock limits are generous.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from tilewright.runtime.drivers.cpu.launcher import is_native

Run = Callable[..., list[str]]

needs_native = pytest.mark.skipif(not is_native(), reason="without the native launcher kernels run to their end")

PROLOGUE = """
import os, signal, sys, threading, time
import numpy as np
import tilewright as tw
import tilewright.language as tl

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored

@tw.jit
def turns(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    for _ in range(n):
        a = tl.exp(a * 0.5)
    tl.store(x + BLOCK * tl.program_id(0) % 4 + i, a)

@tw.jit
def count(out, BLOCK: tl.constexpr):
    tl.atomic_add(out + tl.program_id(0), 1)

@tw.jit
def endless(x, n):
    v = tl.load(x)
    while v < n:
        v = (v * 5 + 1) & 1023
    tl.store(x, v)

@tw.jit(noinline=True)
def stays(v, n):
    while v < n:
        v = (v * 5 + 1) & 1023
    return v

@tw.jit
def endless_call(x, n):
    v = stays(tl.load(x), n)
    tl.store(x, v + 1)

@tw.jit
def half_endless(x, n, out):
    pid = tl.program_id(0)
    if pid % 2 == 1:
        v = tl.load(x)
        while v < n:
            v = (v * 5 + 1) & 1023
        tl.store(out + pid, v)
    else:
        tl.store(out + pid, 7)

x, ones = np.zeros(4096, np.float32), np.ones(1, np.int32)
turns[(3,)](x, 1, BLOCK=1024)
for kernel in (endless, endless_call):
    kernel[(1,)](ones, 0)

def later(number, after):
    def send():
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)
    threading.Thread(target=send, daemon=True).start()
sent = []

def interrupted(launch, number=signal.SIGINT, after=0.05):
    try:                               # on a busy machine the signal may come before the launch
        later(number, after)
        launch()
    except KeyboardInterrupt:
        took = time.monotonic() - sent[-1]
        assert took < 20, took         # 0.05 s on a quiet machine
    else:
        raise SystemExit("not interrupted")

def all_is_well():
    out = np.zeros(64, np.int32)
    for _ in range(3):
        count[(64,)](out, BLOCK=16, num_threads=2)
    assert (out == 3).all(), out
    ones[:] = 1
    endless[(1,)](ones, 0)
    turns[(3,)](x, 1, BLOCK=1024)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The output of a process with this program; it is killed after a while.

    All programs have one name, so the kernels of the prologue are compiled by the first of them.
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
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()

    return words


LAUNCHES = {
    "many short programs": "turns[(2**30,)](x, 1, BLOCK=1024)",
    "many programs on one thread": "turns[(2**30,)](x, 1, BLOCK=1024, num_threads=1)",
    "long programs": "turns[(10_000,)](x, 5_000, BLOCK=1024)",
    "one program in a while loop": "endless[(1,)](ones, 2000)",
    "several programs in while loops": "endless[(7,)](ones, 2000)",
    "a while loop in a function": "endless_call[(3,)](ones, 2000)",
    "only other threads": "half_endless[(2,)](ones, 2000, x)",
}


@needs_native
@pytest.mark.parametrize("threads", [pytest.param("1", marks=pytest.mark.spared), "3"])
def test_ctrl_c_ends_a_launch(run: Run, threads: str) -> None:
    """One process does all: a failure names the launch."""
    launches = ", ".join(f"({name!r}, lambda: {launch})" for name, launch in LAUNCHES.items())
    script = f"""
        for name, launch in [{launches}]:
            print(name, flush=True)
            for _ in range(2):
                ones[:] = 1
                interrupted(launch)
                all_is_well()
    """
    assert run(script, TILEWRIGHT_NUM_THREADS=threads) == " ".join(LAUNCHES).split()


@pytest.mark.spared
@needs_native
@pytest.mark.parametrize("way", ["option", "knob", "variable"])
def test_ctrl_c_ends_a_for_loop_where_that_was_asked_for(run: Run, way: str) -> None:
    script = f"""
        launch = lambda **options: turns[(1,)](x, 2**31 - 1, BLOCK=1024, **options)
        if {way!r} == "knob":
            tw.knobs.tilewright.interruptible = True
        interrupted((lambda: launch(interruptible=True)) if {way!r} == "option" else launch)
        all_is_well()
        print("done")
    """
    assert run(script, TILEWRIGHT_INTERRUPTIBLE=str(int(way == "variable"))) == ["done"]


@pytest.mark.spared
@needs_native
def test_handlers_run_while_a_kernel_does_and_it_goes_on_where_it_was(run: Run) -> None:
    script = """
        seen = []
        def handler(number, frame):
            seen.append(time.monotonic())
            out = np.zeros(64, np.int32)
            count[(64,)](out, BLOCK=16, num_threads=2)      # a launch inside a launch
            assert (out == 1).all()
        signal.signal(signal.SIGUSR1, handler)
        out = np.zeros(40_000, np.int32)

        @tw.jit
        def once(out, x, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            a = tl.load(x + i)
            for _ in range(n):
                a = tl.exp(a * 0.5)
            tl.atomic_add(out + tl.program_id(0), 1 + (tl.max(a, 0) < 0).to(tl.int32))

        once[(3,)](out, x, 1, BLOCK=1024)
        out[:] = 0
        def send():
            for _ in range(5):
                time.sleep(0.15)
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGUSR1)
        threading.Thread(target=send, daemon=True).start()
        turn = 1
        while len(seen) < 5:
            once[(40_000,)](out, x, 8, BLOCK=1024)
            assert (out == turn).all(), np.unique(out)
            turn += 1
        assert max(late - early for early, late in zip(sent, seen)) < 20
        print("done")
    """
    assert run(script) == ["done"]


@pytest.mark.spared
@needs_native
def test_what_a_handler_raises_is_what_the_launch_raises(run: Run) -> None:
    script = """
        def handler(number, frame):
            raise TimeoutError("too long")
        signal.signal(signal.SIGALRM, handler)
        ones[:] = 1
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            endless[(5,)](ones, 2000)
        except TimeoutError as error:
            print(str(error).replace(" ", "_"))
        all_is_well()
    """
    assert run(script) == ["too_long"]


@pytest.mark.spared
@needs_native
def test_a_launch_that_was_expected_to_be_short_gives_up_the_gil_and_can_be_interrupted(run: Run) -> None:
    script = """
        for _ in range(50):
            ones[:] = 1
            endless[(1,)](ones, 1)                          # well below what releases the GIL
        ones[:] = 1
        interrupted(lambda: endless[(1,)](ones, 2000))      # the thread that sends the signal needs the GIL
        all_is_well()
        print("done")
    """
    assert run(script) == ["done"]


@pytest.mark.spared
@needs_native
def test_launches_of_other_threads_end_by_themselves_only(run: Run) -> None:
    """Python's handlers run in the main thread; the others' launches are not disturbed by what is raised there."""
    script = """
        out, results = np.zeros(20_000, np.int32), []
        def work():
            for turn in range(1, 6):
                count[(20_000,)](out, BLOCK=16)
                results.append(bool((out == turn).all()))
        ones[:] = 1
        thread = threading.Thread(target=work)
        thread.start()
        interrupted(lambda: endless[(2,)](ones, 2000), after=0.5)
        thread.join(60)
        assert results == [True] * 5, results
        all_is_well()
        print("done")
    """
    assert run(script) == ["done"]


@pytest.mark.spared
@needs_native
def test_a_child_of_a_fork_can_be_interrupted_too(run: Run) -> None:
    script = """
        all_is_well()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            ones[:] = 1
            interrupted(lambda: endless[(2,)](ones, 2000))
            all_is_well()
            os._exit(17)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(script) == ["17"]


@pytest.mark.spared
@needs_native
def test_a_fork_in_a_handler_leaves_the_launch_of_the_parent_alone(run: Run) -> None:
    script = """
        def handler(number, frame):
            child = os.fork()
            if child == 0:
                all_is_well()
                os._exit(5)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            raise KeyboardInterrupt
        signal.signal(signal.SIGUSR1, handler)
        ones[:] = 1
        interrupted(lambda: endless[(2,)](ones, 2000), signal.SIGUSR1)
        all_is_well()
    """
    assert run(script) == ["5"]


@pytest.mark.spared
def test_kernels_that_print_can_be_interrupted_between_programs(run: Run) -> None:
    script = """
        @tw.jit
        def says(x, n):
            if tl.program_id(0) == 2**31 - 2:  # seconds away: a program takes a nanosecond
                print("never", n)
            v = tl.load(x)
            while v < n:
                v = v + 1
        ones[:] = 1
        interrupted(lambda: says[(2**31 - 1,)](ones, 1020), after=0.5)
        all_is_well()
        print("done")
    """
    assert run(script) == ["done"]


@pytest.mark.spared
def test_without_the_native_launcher_signals_are_handled_between_programs(run: Run) -> None:
    script = """
        from tilewright.runtime.drivers.cpu import launcher
        launcher._ready = lambda: None
        kernel = tw.jit(turns.fn)
        kernel[(3,)](x, 1, BLOCK=1024)
        interrupted(lambda: kernel[(2**30,)](x, 20, BLOCK=1024))
        print("done")
    """
    assert run(script) == ["done"]


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("times", [40, pytest.param(100, marks=pytest.mark.long)])
def test_many_interrupts(run: Run, times: int) -> None:
    script = """
        out = np.zeros(300_000, np.int32)
        for turn in range(int(os.environ["TIMES"])):
            ones[:] = 1
            try:  # the first signals come before `later` returns
                later(signal.SIGINT, after=0.002 * (turn % 20))
                if turn % 2:
                    endless[(1 + turn % 5,)](ones, 2000)
                else:
                    turns[(2**30,)](x, 1, BLOCK=1024)
            except KeyboardInterrupt:
                pass
            else:
                raise SystemExit("not interrupted")
        all_is_well()
        print("done")
    """
    assert run(script, TIMES=str(times)) == ["done"]
