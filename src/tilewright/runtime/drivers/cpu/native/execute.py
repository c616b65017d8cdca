"""Running programs 0 … total-1 of a kernel: scratch memory, the GIL, one thread or many.

How much work a launch is follows from what earlier launches of the same specialisation took: `cost` is a moving
average of clock ticks per 16 programs. Little work runs at once with the GIL held; more releases it; enough for the
threads that are awake (or to wake them) goes through the pool. Short launches that follow one another wake the threads
too, once their work together is enough, but not for a while after sharing has made them slower. An unknown cost counts
as much. A second launch while the pool is busy runs on its own thread alone. Programs that wait for one another always
get all threads that are allowed, and wait until the pool is free.
"""

from __future__ import annotations

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, RARE, Function, Module
from tilewright.runtime.drivers.cpu.native.interrupts import thread_pointer
from tilewright.runtime.drivers.cpu.native.pool import EVENLY, GRADUALLY, SHARED, SINGLY, runtime, system
from tilewright.runtime.drivers.cpu.native.structs import (
    CONTROL,
    DONE,
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
_STRIDE = 128  # scratch of different threads is apart by a multiple of this
_ARENA_ALIGNMENT = 64
_PROGRAM_FIELDS, _SITE_AT = {"x": 0, "y": 4, "z": 8}, 12  # where the launch record tells which program waits


def add_execute(module: Module) -> None:
    """Adds `execute` and its parts to the module."""
    _make_lane(module)
    _take_lane(module)
    _give_lane_back(module)
    _work_ahead(module)
    _is_worth_waking(module)
    _most_threads(module)
    _useful_threads(module)
    _take_pool(module)
    _run(module)
    _weigh(module)
    _learn(module)
    _end_specially(module)
    _execute_for(module)
    _execute(module)


def _make_lane(module: Module) -> None:
    """A new lane, or null. With the GIL held."""
    f = module.function("make_lane", "ptr", {}, inlining=RARE)
    table = runtime(f)
    lane = f.call(system(f, "malloc"), "ptr", f.constant("i64", LANE.size))
    with f.when(lane.equals(0)):
        f.give(0)
    for field in LANE.fields:
        f.put(LANE, lane, field, 0)
    for field in ("look", "wait"):
        f.put(LANE, lane, field, f.emit("ptr", f"getelementptr i8, ptr @{field}, i64 0"))
    f.put(LANE, lane, "link", f.get(TABLE, table, "all_lanes"))
    f.store(lane, f.address(TABLE, table, "all_lanes"), order="release")
    f.give(lane)


def _take_lane(module: Module) -> None:
    """A lane with at least `size` bytes of memory that nobody else uses, or null. With the GIL held."""
    f = module.function("take_lane", "ptr", {"size": "i64"})
    table = runtime(f)
    lane = f.variable("ptr", f.get(TABLE, table, "lanes"))
    with f.when(lane.value.differs(0)) as found:
        f.put(TABLE, table, "lanes", f.get(LANE, lane.value, "next"))
    with found.otherwise():
        lane.set(f.call("make_lane", "ptr"))
        with f.when(lane.value.equals(0)):
            f.give(0)
    with f.when(f.get(LANE, lane.value, "size") < f["size"]):
        _grow(f, lane.value)
    f.give(lane.value)


def _grow(f: Function, lane: Lanes) -> None:
    f.call(system(f, "free"), "void", f.get(LANE, lane, "memory"))
    place, alignment = f.address(LANE, lane, "memory"), f.constant("i64", _ARENA_ALIGNMENT)
    f.put(LANE, lane, "size", f["size"])
    with f.when(f.call(system(f, "posix_memalign"), "i32", place, alignment, f["size"]).differs(0)):
        f.put(LANE, lane, "memory", 0)
        f.put(LANE, lane, "size", 0)
        f.call("give_lane_back", "void", lane)
        f.give(0)


def _give_lane_back(module: Module) -> None:
    f = module.function("give_lane_back", "void", {"lane": "ptr"})
    table = runtime(f)
    f.put(LANE, f["lane"], "next", f.get(TABLE, table, "lanes"))
    f.put(TABLE, table, "lanes", f["lane"])
    f.give()


def _work_ahead(module: Module) -> None:
    """Ticks that the launch will probably take on one thread."""
    f = module.function("work_ahead", "i64", {"cost": "i64", "total": "i64"})
    with f.when((f["cost"] < 0) | (f["total"] > _FEW) | (f["cost"] > _FEW)):
        f.give(_MUCH)
    f.give(f["cost"] * f["total"] // _GRAIN)


def _is_worth_waking(module: Module) -> None:
    """Whether this work, or that of launches in close succession, is enough to wake the threads of the pool."""
    f = module.function("is_worth_waking", "i1", {"work": "i64", "started": "i64"})
    table, work = runtime(f), f["work"]
    enough = f.get(TABLE, table, "cold_ticks")
    with f.when(work > enough):
        f.give(1)
    pause = f["started"] - f.get(TABLE, table, "alone_ended")
    patience = f.get(POOL, f.get(TABLE, table, "pool"), "spin_ticks")
    alone = f.choose(pause > patience, 0, f.get(TABLE, table, "alone_ticks")) + work
    f.put(TABLE, table, "alone_ended", f["started"] + work)
    f.put(TABLE, table, "alone_ticks", f.choose(alone > enough, 0, alone))
    f.give(alone > enough)


def _most_threads(module: Module) -> None:
    """The most threads that a launch may use."""
    f = module.function("most_threads", "i64", {"total": "i64", "allowed": "i64"}, inlining=ALWAYS)
    threads = f.variable("i64", f.get(POOL, f.get(TABLE, runtime(f), "pool"), "threads"))
    for bound in (f["total"], f["allowed"]):
        with f.when((bound < threads.value) & (bound > 0)):
            threads.set(bound)
    f.give(threads.value)


def _useful_threads(module: Module) -> None:
    """The number of threads to use for an amount of work: 1 or the most that are allowed."""
    arguments = {"work": "i64", "most": "i64", "started": "i64"}
    f = module.function("useful_threads", "i64", arguments)
    table, most = runtime(f), f["most"]
    pool = f.get(TABLE, table, "pool")
    with f.when(most < 2):
        f.give(1)
    is_little = f["work"] <= f.get(TABLE, table, "hot_ticks")
    is_short = f["work"] <= f.get(TABLE, table, "cold_ticks")
    with f.when(is_little | (is_short & (f["started"] < f.get(TABLE, table, "alone_until")))):
        f.give(1)
    sleepers = f.load("i32", f.address(POOL, pool, "sleepers"), order="monotonic").to("i64")
    all_sleep = f.get(POOL, pool, "workers") <= sleepers
    with f.when(all_sleep), f.when(f.call("is_worth_waking", "i1", f["work"], f["started"]).equals(0)):
        f.give(1)
    f.give(most)


def _take_pool(module: Module) -> None:
    """Takes the pool's lock if it is free. Programs that wait for others wait for it: alone they would for ever.

    But not for the launch during which Python handles the signal that has brought us here.
    """
    f = module.function("take_pool", "i1", {"pool": "ptr", "lane": "ptr", "division": "i64"})
    lock, me = f.address(POOL, f["pool"], "lock"), f.get(LANE, f["lane"], "owner")
    ticks = f.address(LANE, f["lane"], "tick")
    seen = f.variable("i64", f.load("i64", ticks, order="monotonic"))
    with f.repeat() as loop:
        with f.when(_exchanged(f, lock, 1).equals(0)):
            f.put(POOL, f["pool"], "user", me)
            f.give(1)
        loop.leave_when(f["division"].differs(SINGLY) | f.get(POOL, f["pool"], "user").equals(me))
        f.call(system(f, "sched_yield"), "i32")
        tick = f.load("i64", ticks, order="monotonic")
        with f.when(tick.differs(seen.value)):
            seen.set(tick)
            loop.leave_when(f.call("look", "i64", f["lane"]).differs(0))
    f.give(0)


def _run(module: Module) -> None:
    """Runs with the GIL released, for `execute` to take it again; gives how many threads took part."""
    f = module.function("run", "i64", {**SHARED, "lane": "ptr"}, inlining=RARE)
    pool, lane = f.get(TABLE, runtime(f), "pool"), f["lane"]
    f.put(LANE, lane, "thread", f.call(system(f, "PyEval_SaveThread"), "ptr"))
    took_part = f.variable("i64", 0)
    with f.when(f["threads"] > 1), f.when(f.call("take_pool", "i1", pool, lane, f["division"])):
        f.put(LANE, lane, "is_shared", 1)
        took_part.set(f.call("share", "i64", pool, *(f[name] for name in SHARED)))
        f.put(LANE, lane, "is_shared", 0)
        f.put(POOL, pool, "user", 0)
        _exchanged(f, f.address(POOL, pool, "lock"), 0)
    with f.when(took_part.value.equals(0)):
        took_part.set(1)
        with f.when(f.get(LANE, lane, "stop").equals(0)):
            begin = f.constant("i64", 0)
            f.call("run_chunk", "void", f["entry"], f["launch"], begin, f["total"], f["scratch"], lane)
    f.give(took_part.value)


def _exchanged(f: Function, place: Lanes, value: int) -> Lanes:
    return f.update("xchg", place, value, kind="i32")


def _learn(module: Module) -> None:
    """Moves the cost a quarter of the way to what was just measured.

    That a short launch took long on several threads may be their fault: it never raises the cost, but counts as lost.
    """
    arguments = {"cost": "ptr", "ticks": "i64", "took_part": "i64", "total": "i64", "work": "i64", "threads": "i64"}
    f = module.function("learn", "void", arguments)
    with f.when((f["ticks"] < 0) | (f["ticks"] > _MUCH // 4096)):
        f.give()
    measured = f["ticks"] * _GRAIN * f["took_part"] // f["total"]
    old = f.load("i64", f["cost"])
    with f.when(old < 0):
        f.store(measured, f["cost"])
        f.give()
    is_shared = (f["threads"] > 1) & (f["work"] <= f.get(TABLE, runtime(f), "cold_ticks"))
    most = f.choose(is_shared, old, old * _STEEPEST + _LITTLE)  # a thread that was interrupted says nothing
    f.store(old + (f.choose(measured < most, measured, most) - old).shift_signed(2), f["cost"])
    with f.when(is_shared):
        f.call("weigh", "void", f["ticks"] - f["work"])
    f.give()


def _weigh(module: Module) -> None:
    """Sums up what sharing short launches has lost; when that is much, they run alone for several times as long."""
    f = module.function("weigh", "void", {"loss": "i64"})
    table = runtime(f)
    much = f.get(TABLE, table, "cold_ticks")
    lost = f.get(TABLE, table, "lost_ticks") + f["loss"]
    f.put(TABLE, table, "lost_ticks", f.choose((lost < 0) | (lost > much), 0, lost))
    with f.when(lost > much):
        most = much * _MAX_LOST
        pause = f.choose(lost < most, lost, most) * _PENANCE
        f.put(TABLE, table, "alone_until", f.call("now", "i64") + pause)
    f.give()


def _end_specially(module: Module) -> None:
    """Takes the GIL that was given up. After a launch that was stopped: says why, and makes its lane ready again."""
    f = module.function("end_specially", "i32", {"lane": "ptr", "launch": "ptr"}, inlining=RARE)
    lane = f["lane"]
    thread = f.get(LANE, lane, "thread")
    with f.when(thread.differs(0)):
        f.call(system(f, "PyEval_RestoreThread"), "void", thread)
        f.put(LANE, lane, "thread", 0)
    with f.when(f.get(LANE, lane, "stop").equals(0)):
        f.give(0)
    raised, stuck = f.get(LANE, lane, "raised"), f.get(LANE, lane, "stuck")
    with f.when(stuck.differs(0)):
        for field, offset in _PROGRAM_FIELDS.items():
            f.store(f.get(LANE, lane, field), f["launch"], offset)
        f.store((stuck - 1).to("i32"), f["launch"], _SITE_AT)
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
    f.store(thread_pointer(f), f.address(LANE, lane, "owner"), order="monotonic")
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
        with f.when(status.differs(0)):
            f.give(status)
    f.call("give_lane_back", "void", lane)


_EXECUTED = {"entry": "ptr", "launch": "ptr", "total": "i64", "scratch": "i64", "allowed": "i64", "cost": "ptr"}


def _execute(module: Module) -> None:
    """Calls `execute_for` with the word at LAUNCH_CONTROL: a CONTROL that says who listens, or null."""
    f = module.function("execute", "i32", _EXECUTED, exported=True)
    arguments = [f[name] for name in _EXECUTED]
    f.give(f.call("execute_for", "i32", *arguments, f.load("ptr", f["launch"], LAUNCH_CONTROL)))


def _execute_for(module: Module) -> None:
    """Runs a launch, with the GIL held on entry and exit.

    `allowed`: threads, 0 for all, with SPINS. Gives DONE; NO_MEMORY for its scratch; RAISED: an exception is set;
    STUCK.
    """
    f = module.function("execute_for", "i32", {**_EXECUTED, "listener": "ptr"}, inlining=ALWAYS)
    table, total = runtime(f), f["total"]
    with f.when(total < 1):
        f.give(DONE)
    started = f.call("now", "i64")
    work = f.call("work_ahead", "i64", f.load("i64", f["cost"]), total)
    most = f.call("most_threads", "i64", total, f["allowed"] & (SPINS - 1))
    spins = (f["allowed"] & SPINS).differs(0)
    useful = f.variable("i64", most)
    with f.when(spins.equals(0)):
        useful.set(f.call("useful_threads", "i64", work, most, started))
    threads = useful.value
    stride = (f["scratch"] + (_STRIDE - 1)) & -_STRIDE
    lane = f.call("take_lane", "ptr", stride * threads)
    with f.when(lane.equals(0)):
        f.give(NO_MEMORY)
    memory = f.get(LANE, lane, "memory")
    _begin(f, lane)
    took_part = f.variable("i64", 1)
    keeps_gil = threads.equals(1) & (work <= f.get(TABLE, table, "gil_ticks"))
    is_short = work <= f.get(TABLE, table, "cold_ticks")
    with f.when(keeps_gil) as short:
        f.call("run_chunk", "void", f["entry"], f["launch"], f.constant("i64", 0), total, memory, lane)
    with short.otherwise():
        division = f.choose(spins, SINGLY, f.choose(is_short, EVENLY, GRADUALLY))
        shared = (f["entry"], f["launch"], total, memory, stride, threads, division)
        took_part.set(f.call("run", "i64", *shared, lane))
    _end(f, lane)
    f.call("learn", "void", f["cost"], f.call("now", "i64") - started, took_part.value, total, work, threads)
    f.give(DONE)
