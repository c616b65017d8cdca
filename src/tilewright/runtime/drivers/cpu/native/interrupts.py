"""Launches that end early: because of a signal, or because all running programs wait for others.

A thread of its own changes the tick of every running launch 25 times a second. Programs compare ticks, which costs them
a load; a program that sees a new tick calls `look`:

    between programs     machine code returns the number of the next program → `look`, and on from there
    in a while loop      machine code calls `look`; leaves the kernel if that says so
    in a spin loop       machine code calls `wait`, which also measures how long it has been waiting
    caller that waits for threads of the pool            → `look`

`look`, if the launching thread is Python's main thread, takes the GIL and lets Python handle signals. When a handler
raises, the launch is stopped: no further program is started, and programs that call `look` leave.

The ticking thread sleeps while nothing is launched. Nothing here runs when a launch takes less than a tick.
"""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.native.code import I32, I64, RARE, Function, Ptr, native
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    JOB,
    LANE,
    OPEN,
    POOL,
    TABLE,
    WATCHER_ABSENT,
    WATCHER_ASLEEP,
    WATCHER_AWAKE,
)

_TICK_MICROSECONDS = 40_000
_PATIENCE = 25  # ticks without a launch until the thread sleeps
_COUNT_BITS = 16
_COUNT = (1 << _COUNT_BITS) - 1


@native("i64", inlining=RARE)
def _check_signals(f: Function, lane: Ptr) -> None:
    """Lets Python handle signals if this is its main thread; not 0 when a handler raised. Leaves the GIL given up."""
    is_main = f.system.is_main_thread(f)
    thread = f.get(LANE, lane, "thread")
    has_gil = thread.equals(0)
    with f.when(is_main.equals(0)):
        with f.when(has_gil):
            f.put(LANE, lane, "thread", f.call(system(f, "PyEval_SaveThread"), "ptr"))
        f.give(0)
    with f.when(has_gil.equals(0)):
        f.call(system(f, "PyEval_RestoreThread"), "void", thread)
        f.put(LANE, lane, "thread", 0)
    raised = (f.call(system(f, "PyErr_CheckSignals"), "i32") < 0).widened("i64")
    f.put(LANE, lane, "thread", f.call(system(f, "PyEval_SaveThread"), "ptr"))
    f.give(raised)


@native("i64", exported=True, inlining=RARE)
def _look(f: Function, lane: Ptr) -> None:
    """Looks whether the launch is to stop: gives not 0 if it is."""
    f.give_when(f.load("i64", f.address(LANE, lane, "stop"), order="monotonic").differs(0), 1)
    f.give_when(f.get(LANE, lane, "owner").differs(f.system.thread_pointer(f)), 0)
    f.give_when(f.call("check_signals", "i64", lane).equals(0), 0)
    f.put(LANE, lane, "raised", 1)
    f.store(f.constant("i64", 1), f.address(LANE, lane, "stop"), order="monotonic")
    f.give(1)


@native("void", inlining=RARE)
def _count_anew(f: Function, lane: Ptr) -> None:
    """Forgets who has been counted as waiting: a program has ended or begun to wait, and may have let others go on."""
    place = f.address(LANE, lane, "waiting")
    with f.repeat() as again:
        old = f.load("i64", place, order="acquire")
        again.leave_when(f.replaced(place, old, ((old >> _COUNT_BITS | 3) + 1) << _COUNT_BITS))


@native("i64")
def _threads_at_work(f: Function, lane: Ptr) -> None:
    """How many threads run programs of the launch; -1 while there are programs for one that is about to come."""
    f.give_when(f.get(LANE, lane, "is_shared").equals(0), 1)
    pool = f.get(TABLE, runtime(f), "pool")
    gate = f.load("i64", f.address(POOL, pool, "gate"), order="acquire")
    job, next_program = f.address(POOL, pool, "job"), f.load("i64", f.address(POOL, pool, "next"), order="acquire")
    most, there_are = f.get(JOB, job, "limit"), f.get(POOL, pool, "workers") + 1
    seats = f.load("i64", f.address(POOL, pool, "seats"), order="acquire")
    is_seat_free = (seats < most) & (seats < there_are)
    f.give_when((next_program < f.get(JOB, job, "total")) & is_seat_free, -1)
    f.give((gate & (OPEN - 1)) + f.choose((gate & OPEN).differs(0), 1, 0))


@native("i64")
def _count(f: Function, lane: Ptr, since: I64) -> None:
    """Counts a thread that has waited for too long, once in each round; gives `since` with the round; -1: all wait.

    A round ends when all threads are counted; the numbers of first rounds are multiples of 4. Who is counted in a third
    one went on to wait after a look at memory that is younger than the first one, and nothing has happened since then
    that could let it go on.
    """
    place, threads = f.address(LANE, lane, "waiting"), f.call("threads_at_work", "i64", lane)
    f.give_when(threads < 0, since)
    counted = f.variable("i64", since)
    with f.repeat() as again:
        old = f.load("i64", place, order="acquire")
        round_number = old >> _COUNT_BITS
        counted.set((since & ~_COUNT) | (round_number & _COUNT))
        f.give_when(counted.value.equals(since), since)
        is_last = (old & _COUNT) + 1 >= threads
        f.give_when(is_last & (round_number & 3).equals(2), -1)
        again.leave_when(f.replaced(place, old, f.choose(is_last, (round_number + 1) << _COUNT_BITS, old + 1)))
    f.give(counted.value)


@native("i64", exported=True, inlining=RARE)
def _wait(f: Function, lane: Ptr, site: I64, x: I32, y: I32, z: I32, since: I64) -> None:
    """Called by a loop that waits; gives the time when the wait began, in ticks of the clock; -1: leave the kernel.

    The lowest 16 bits of that time are the number of the round in which this thread was counted last.
    """
    f.give_when(f.call("look", "i64", lane).differs(0), -1)
    now, most = f.call("now", "i64"), f.get(TABLE, runtime(f), "spin_ticks")
    with f.when(since.equals(0)):
        f.call("count_anew", "void", lane)
        f.give(now | _COUNT)  # no first round has this number
    f.give_when(most.equals(0) | (now - since < most), since)
    counted = f.call("count", "i64", lane, since)
    f.give_when(counted >= 0, counted)
    with f.when(f.update("xchg", f.address(LANE, lane, "stop"), 1).equals(0)):
        for axis in "xyz":
            f.put(LANE, lane, axis, f[axis])
        f.put(LANE, lane, "stuck", site + 1)
    f.give(-1)


@native("i64")
def _tick_all(f: Function) -> None:
    """Gives all running launches another tick; returns their number."""
    count = f.variable("i64", 0)
    lane = f.variable("ptr", f.load("ptr", f.address(TABLE, runtime(f), "all_lanes"), order="acquire"))
    with f.repeat() as loop:
        loop.leave_when(lane.value.equals(0))
        owner = f.load("ptr", f.address(LANE, lane.value, "owner"), order="monotonic")
        with f.when(owner.differs(0)):
            tick = f.address(LANE, lane.value, "tick")
            f.store(f.load("i64", tick, order="monotonic") + 1, tick, order="monotonic")
            count.set(count.value + 1)
        lane.set(f.get(LANE, lane.value, "link"))
    f.give(count.value)


@native("ptr")
def _watch(f: Function, nothing: Ptr) -> None:
    """The life of the thread that ticks."""
    place, idle = f.address(TABLE, runtime(f), "watcher"), f.variable("i64", 0)
    with f.repeat():
        f.system.sleep(f, _TICK_MICROSECONDS)
        idle.set(idle.value + 1)
        with f.when(f.call("tick_all", "i64").differs(0)):
            idle.set(0)
        with f.when(idle.value > _PATIENCE):
            f.update("xchg", place, WATCHER_ASLEEP, kind="i32")
            f.system.sleep(f, _TICK_MICROSECONDS)  # a launch that began before is to be seen by now
            with f.when(f.call("tick_all", "i64").differs(0)):
                f.update("xchg", place, WATCHER_AWAKE, kind="i32")
            with f.repeat() as sleep:
                sleep.leave_when(f.load("i32", place, order="seq_cst").differs(WATCHER_ASLEEP))
                f.system.wait_while(f, place, f.constant("i32", WATCHER_ASLEEP))
            idle.set(0)
    f.give(0)


@native("void", inlining=RARE)
def _rouse(f: Function) -> None:
    """Starts the thread that ticks, or wakes it. With the GIL held."""
    place = f.address(TABLE, runtime(f), "watcher")
    before = f.update("xchg", place, WATCHER_AWAKE, kind="i32")
    with f.when(before.equals(WATCHER_ASLEEP)):
        f.system.wake(f, place, f.constant("i32", 1))
    with f.when(before.equals(WATCHER_ABSENT)), f.system.without_signals(f):
        f.system.start_thread(f, "watch", f.constant("ptr", 0))
