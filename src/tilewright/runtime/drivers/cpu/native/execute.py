"""Running programs 0 … total-1 of a kernel: scratch memory, the GIL, one thread or many.

The work of a launch is estimated from earlier launches of the same specialisation: `cost` is a moving average of clock
ticks per 16 programs. A small launch runs at once with the GIL held; a larger one releases it; one with enough work for
the threads that are awake (or to wake them) goes through the pool. Successive short launches wake the threads too, once
their total work is enough, but not for a while after sharing has made them slower. An unknown cost counts as enough. A
second launch while the pool is busy runs on its own thread alone. Programs that wait for one another always get all
threads that are allowed, and wait until the pool is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, I64, RARE, Function, Ptr, native
from tilewright.runtime.drivers.cpu.native.pool import EVENLY, GRADUALLY, SINGLY, runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    APART,
    CONTROL,
    DONE,
    IS_FREE_THREADED,
    LANE,
    LAUNCH_CONTROL,
    NO_MEMORY,
    POOL,
    RAISED,
    SPINS,
    STUCK,
    TABLE,
    WATCHER_AWAKE,
)

_MUCH = 2**62
_GRAIN = 16  # programs per unit of cost
_FEW = 2**31  # programs: above, work is not multiplied but taken as much
_STEEPEST, _LITTLE = 4, 4096  # max measured cost that counts: this factor of the old one, plus this number of ticks
_PENANCE, _MAX_LOST = 16, 100  # launches run alone for this factor of the lost ticks; max that count, in `cold_ticks`
_ARENA_ALIGNMENT = 64
_LANE_ALIGNMENT = 128  # threads write their lanes all the time, and should not share lines of the cache
_PROGRAM_FIELDS, _SITE_AT = {"x": 0, "y": 4, "z": 8}, 12  # where the launch record tells which program waits


@native("ptr", inlining=RARE)
def _make_lane(f: Function) -> None:
    """A new lane, or null."""
    table = runtime(f)
    lane = f.system.take_memory(f, f.constant("i64", _LANE_ALIGNMENT), f.constant("i64", LANE.size))
    f.give_when(lane.equals(0), 0)
    for field in LANE.fields:
        f.put(LANE, lane, field, 0)
    for field in ("look", "wait"):
        f.put(LANE, lane, field, f.emit("ptr", f"getelementptr i8, ptr @{field}, i64 0"))
    with _locked_lanes(f):
        f.put(LANE, lane, "link", f.get(TABLE, table, "all_lanes"))
        f.store(lane, f.address(TABLE, table, "all_lanes"), order="release")
    f.give(lane)


@contextmanager
def _locked_lanes(f: Function) -> Iterator[None]:
    """Lists of lanes change with the GIL held or, where there is none, a lock of their own, for a few instructions."""
    place = f.address(TABLE, runtime(f), "lanes_lock")
    if IS_FREE_THREADED:
        with f.repeat() as spin:
            spin.leave_when(_exchanged(f, place, 1).equals(0))
            f.system.give_way(f)
    yield
    if IS_FREE_THREADED:
        f.store(f.constant("i32", 0), place, order="release")


@native("ptr")
def _take_lane(f: Function, size: I64) -> None:
    """A lane with at least `size` bytes of memory that is not in use, or null."""
    table, lane = runtime(f), f.variable("ptr", 0)
    if IS_FREE_THREADED:
        lane.set(_own_lane(f))
        with f.when(lane.value.differs(0)), f.when(f.get(LANE, lane.value, "is_taken").equals(0)):
            f.put(LANE, lane.value, "is_taken", 1)
            with f.when(f.get(LANE, lane.value, "size") < size):
                _grow(f, lane.value)
            f.give(lane.value)
    with _locked_lanes(f):
        lane.set(f.get(TABLE, table, "lanes"))
        with f.when(lane.value.differs(0)):
            f.put(TABLE, table, "lanes", f.get(LANE, lane.value, "next"))
    with f.when(lane.value.equals(0)):
        lane.set(f.call("make_lane", "ptr"))
        f.give_when(lane.value.equals(0), 0)
    with f.when(f.get(LANE, lane.value, "size") < size):
        _grow(f, lane.value)
    f.give(lane.value)


def _grow(f: Function, lane: Lanes) -> None:
    f.system.free_memory(f, f.get(LANE, lane, "memory"))
    made = f.system.take_memory(f, f.constant("i64", _ARENA_ALIGNMENT), f["size"])
    f.put(LANE, lane, "memory", made)
    f.put(LANE, lane, "size", f["size"])
    with f.when(made.equals(0)):
        f.put(LANE, lane, "size", 0)
        f.call("give_lane_back", "void", lane)
        f.give(0)


def _own_lane(f: Function) -> Lanes:
    """The lane that this thread keeps, or null: threads that shared a list of them would wait for each other."""
    return f.system.thread_word(f, _lane_key(f))


def _lane_key(f: Function) -> Lanes:
    return f.get(TABLE, runtime(f), "lane_key").to("i32")


@native("void")
def _give_lane_back(f: Function, lane: Ptr) -> None:
    """Makes a lane free; where threads are free, each keeps the first one that it had, until it ends."""
    if IS_FREE_THREADED:
        own = _own_lane(f)
        with f.when(own.equals(0)):
            f.system.set_thread_word(f, _lane_key(f), lane)
        with f.when(own.equals(0) | own.equals(lane)):
            f.put(LANE, lane, "is_taken", 0)
            f.give()
    f.call("list_lane", "void", lane)


@native("void", exported=True)
def _list_lane(f: Function, lane: Ptr) -> None:
    """Puts a lane where any thread finds it; what a thread that ends does with its own one."""
    table = runtime(f)
    with _locked_lanes(f):
        f.put(LANE, lane, "next", f.get(TABLE, table, "lanes"))
        f.put(TABLE, table, "lanes", lane)


@native("i64")
def _work_ahead(f: Function, cost: I64, total: I64) -> None:
    """Ticks that the launch will probably take on one thread."""
    f.give_when((cost < 0) | (total > _FEW) | (cost > _FEW), _MUCH)
    f.give(cost * total // _GRAIN)


@native("i1")
def _is_worth_waking(f: Function, work: I64, started: I64) -> None:
    """Whether this work, or that of launches in close succession, is enough to wake the threads of the pool."""
    table = runtime(f)
    enough = f.get(TABLE, table, "cold_ticks")
    f.give_when(work > enough, 1)
    pause = started - f.get(TABLE, table, "alone_ended")
    patience = f.get(POOL, f.get(TABLE, table, "pool"), "spin_ticks")
    alone = f.choose(pause > patience, 0, f.get(TABLE, table, "alone_ticks")) + work
    f.put(TABLE, table, "alone_ended", started + work)
    f.put(TABLE, table, "alone_ticks", f.choose(alone > enough, 0, alone))
    f.give(alone > enough)


@native("i64", inlining=ALWAYS)
def _most_threads(f: Function, total: I64, allowed: I64) -> None:
    """The most threads that a launch may use."""
    table = runtime(f)
    threads = f.variable("i64", f.get(POOL, f.get(TABLE, table, "pool"), "threads"))
    size = f.get(TABLE, table, "team_size")
    with f.when(size.differs(0)):
        threads.set(f.call(size, "i32").widened("i64"))
    for bound in (total, allowed):
        with f.when((bound < threads.value) & (bound > 0)):
            threads.set(bound)
    f.give(threads.value)


@native("i64")
def _useful_threads(f: Function, work: I64, most: I64, started: I64) -> None:
    """The number of threads to use for an amount of work: 1, or as many of those allowed as have enough of it each."""
    table = runtime(f)
    pool = f.get(TABLE, table, "pool")
    f.give_when(most < 2, 1)
    is_little = work <= f.get(TABLE, table, "hot_ticks")
    is_short = work <= f.get(TABLE, table, "cold_ticks")
    f.give_when(is_little | (is_short & (started < f.get(TABLE, table, "alone_until"))), 1)
    sleepers = f.load("i32", f.address(POOL, pool, "sleepers"), order="monotonic").to("i64")
    all_sleep = f.get(POOL, pool, "workers") <= sleepers
    is_pool = f.get(TABLE, table, "team").equals(0)  # nobody knows whether a team sleeps: products keep it awake
    with f.when(all_sleep & is_pool), f.when(f.call("is_worth_waking", "i1", work, started).equals(0)):
        f.give(1)
    each = f.get(TABLE, table, "hot_ticks").shift_signed(1) | 1  # half of what two threads are worth; never 0
    enough = work // each
    f.give_when(enough < 3, 2)
    f.give(f.choose(enough < most, enough, most))


@native("i1")
def _take_pool(f: Function, pool: Ptr, lane: Ptr, division: I64) -> None:
    """Takes the pool's lock if it is free. Programs that wait for others wait for it: alone they would for ever.

    But not for the launch during which Python handles the signal that has brought us here.
    """
    lock, me = f.address(POOL, pool, "lock"), f.get(LANE, lane, "owner")
    ticks = f.address(LANE, lane, "tick")
    seen = f.variable("i64", f.load("i64", ticks, order="monotonic"))
    with f.repeat() as loop:
        with f.when(_exchanged(f, lock, 1).equals(0)):
            f.put(POOL, pool, "user", me)
            f.give(1)
        loop.leave_when(division.differs(SINGLY) | f.get(POOL, pool, "user").equals(me))
        f.system.give_way(f)
        tick = f.load("i64", ticks, order="monotonic")
        with f.when(tick.differs(seen.value)):
            seen.set(tick)
            loop.leave_when(f.call("look", "i64", lane).differs(0))
    f.give(0)


@native("i64", inlining=RARE)
def _run(
    f: Function, entry: Ptr, launch: Ptr, total: I64, scratch: Ptr, stride: I64, threads: I64, division: I64, lane: Ptr
) -> None:
    """Runs with the GIL released, for `execute` to take it again; gives how many threads took part."""
    pool = f.get(TABLE, runtime(f), "pool")
    f.put(LANE, lane, "thread", f.call(system(f, "PyEval_SaveThread"), "ptr"))
    took_part = f.variable("i64", 0)
    with f.when(threads > 1), f.when(f.call("take_pool", "i1", pool, lane, division)):
        f.put(LANE, lane, "is_shared", 1)
        f.put(LANE, lane, "waiting", 0)
        shared = (entry, launch, total, scratch, stride, threads, division)
        took_part.set(f.call("share", "i64", pool, *shared))
        f.put(LANE, lane, "is_shared", 0)
        f.put(POOL, pool, "user", 0)
        _exchanged(f, f.address(POOL, pool, "lock"), 0)
    with f.when(took_part.value.equals(0)):
        took_part.set(1)
        with f.when(f.get(LANE, lane, "stop").equals(0)):
            begin = f.constant("i64", 0)
            f.call("run_chunk", "void", entry, launch, begin, total, scratch, lane)
    f.give(took_part.value)


def _exchanged(f: Function, place: Lanes, value: int) -> Lanes:
    return f.update("xchg", place, value, kind="i32")


@native("void")
def _learn(f: Function, cost: Ptr, ticks: I64, took_part: I64, total: I64, work: I64, threads: I64) -> None:
    """Moves the cost a quarter of the way to what was just measured.

    That a short launch took long on several threads may be their fault: it never raises the cost, but counts as lost.
    """
    f.give_when((ticks < 0) | (ticks > _MUCH // 4096))
    measured = ticks * _GRAIN * took_part // total
    old = f.load("i64", cost)
    if IS_FREE_THREADED:  # threads that launch the same need not tell each other that it is little
        least = f.get(TABLE, runtime(f), "gil_ticks")
        f.give_when((old >= 0) & (work <= least) & (ticks <= least))
    with f.when(old < 0):
        f.store(measured, cost)
        f.give()
    is_shared = (threads > 1) & (work <= f.get(TABLE, runtime(f), "cold_ticks"))
    most = f.choose(is_shared, old, old * _STEEPEST + _LITTLE)  # a thread that was interrupted says nothing
    f.store(old + (f.choose(measured < most, measured, most) - old).shift_signed(2), cost)
    with f.when(is_shared):
        f.call("weigh", "void", ticks - work)


@native("void")
def _weigh(f: Function, loss: I64) -> None:
    """Sums up what sharing short launches has lost; when that is much, they run alone for several times as long."""
    table = runtime(f)
    much = f.get(TABLE, table, "cold_ticks")
    lost = f.get(TABLE, table, "lost_ticks") + loss
    f.put(TABLE, table, "lost_ticks", f.choose((lost < 0) | (lost > much), 0, lost))
    with f.when(lost > much):
        most = much * _MAX_LOST
        pause = f.choose(lost < most, lost, most) * _PENANCE
        f.put(TABLE, table, "alone_until", f.call("now", "i64") + pause)


@native("i32", inlining=RARE)
def _end_specially(f: Function, lane: Ptr, launch: Ptr) -> None:
    """Takes the GIL that was given up. After a launch that was stopped: says why, and makes its lane ready again."""
    thread = f.get(LANE, lane, "thread")
    with f.when(thread.differs(0)):
        f.call(system(f, "PyEval_RestoreThread"), "void", thread)
        f.put(LANE, lane, "thread", 0)
    f.give_when(f.get(LANE, lane, "stop").equals(0), 0)
    raised, stuck = f.get(LANE, lane, "raised"), f.get(LANE, lane, "stuck")
    with f.when(stuck.differs(0)):
        for field, offset in _PROGRAM_FIELDS.items():
            f.store(f.get(LANE, lane, field), launch, offset)
        f.store((stuck - 1).to("i32"), launch, _SITE_AT)
    for field in ("stop", "raised", "stuck", "waiting"):
        f.put(LANE, lane, field, 0)
    f.call("give_lane_back", "void", lane)
    f.give(f.choose(raised.differs(0), RAISED, f.choose(stuck.differs(0), STUCK, DONE)).to("i32"))


def _begin(f: Function, lane: Lanes) -> None:
    """Lets the programs know their lane, and the thread that ticks know the launch."""
    launch, listener = f["launch"], f["listener"]
    with f.when(listener.differs(0)):
        f.put(LANE, lane, "report", f.get(CONTROL, listener, "report"))
    f.store(lane, launch, LAUNCH_CONTROL)
    f.put(LANE, lane, "launch", launch)
    f.put(LANE, lane, "entry", f["entry"])
    f.store(f.system.thread_pointer(f), f.address(LANE, lane, "owner"), order="monotonic")
    watcher = f.load("i32", f.address(TABLE, runtime(f), "watcher"), order="monotonic")
    with f.when(watcher.differs(WATCHER_AWAKE)):
        f.call("rouse", "void")


def _end(f: Function, lane: Lanes) -> None:
    f.store(f.constant("ptr", 0), f.address(LANE, lane, "owner"), order="monotonic")
    with f.when(f["listener"].differs(0)):
        f.put(LANE, lane, "report", 0)
    is_special = f.get(LANE, lane, "thread").to("i64") | f.get(LANE, lane, "stop")
    with f.when(is_special.differs(0)):
        status = f.call("end_specially", "i32", lane, f["launch"])
        f.give_when(status.differs(0), status)
    f.call("give_lane_back", "void", lane)


@native("i32", exported=True)
def _execute(f: Function, entry: Ptr, launch: Ptr, total: I64, scratch: I64, allowed: I64, cost: Ptr) -> None:
    """Calls `execute_for` with the word at LAUNCH_CONTROL: a CONTROL that says who listens, or null."""
    listener = f.load("ptr", launch, LAUNCH_CONTROL)
    f.give(f.call("execute_for", "i32", entry, launch, total, scratch, allowed, cost, listener))


@native("i32", inlining=ALWAYS)
def _execute_for(
    f: Function, entry: Ptr, launch: Ptr, total: I64, scratch: I64, allowed: I64, cost: Ptr, listener: Ptr
) -> None:
    """Runs a launch, with the GIL held on entry and exit.

    `allowed`: threads, 0 for all, with SPINS. Gives DONE; NO_MEMORY for its scratch; RAISED: an exception is set;
    STUCK.
    """
    table = runtime(f)
    f.give_when(total < 1, DONE)
    started = f.call("now", "i64")
    work = f.call("work_ahead", "i64", f.load("i64", cost), total)
    most = f.call("most_threads", "i64", total, allowed & (SPINS - 1))
    spins = (allowed & SPINS).differs(0)
    useful = f.variable("i64", most)
    with f.when(spins.equals(0)):
        useful.set(f.call("useful_threads", "i64", work, most, started))
    threads = useful.value
    stride = ((scratch + (APART - 1)) & -APART) + APART  # with a line for the counter of its part
    lane = f.call("take_lane", "ptr", stride * threads)
    f.give_when(lane.equals(0), NO_MEMORY)
    memory = f.get(LANE, lane, "memory")
    _begin(f, lane)
    took_part = f.variable("i64", 1)
    keeps_gil = threads.equals(1) & (work <= f.get(TABLE, table, "gil_ticks"))
    is_short = work <= f.get(TABLE, table, "cold_ticks")
    with f.when(keeps_gil) as short:
        f.call("run_chunk", "void", entry, launch, f.constant("i64", 0), total, memory, lane)
    with short.otherwise():
        division = f.choose(spins, SINGLY, f.choose(is_short, EVENLY, GRADUALLY))
        shared = (entry, launch, total, memory, stride, threads, division)
        took_part.set(f.call("run", "i64", *shared, lane))
    _end(f, lane)
    f.call("learn", "void", cost, f.call("now", "i64") - started, took_part.value, total, work, threads)
    f.give(DONE)
