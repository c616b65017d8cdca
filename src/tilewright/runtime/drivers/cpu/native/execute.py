"""Running programs 0 … total-1 of a kernel: scratch memory, the GIL, one thread or many.

How much work a launch is follows from what earlier launches of the same specialisation took: `cost` is a moving
average of clock ticks per 16 programs. Little work runs at once with the GIL held; more releases it; enough for the
threads that are awake (or to wake them) goes through the pool. Short launches that follow one another wake the threads
too, once their work together is enough, but not for a while after sharing has made them slower. An unknown cost counts
as much. A second launch while the pool is busy runs on its own thread alone.
"""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.native.code import Function, Module, Value
from tilewright.runtime.drivers.cpu.native.pool import SHARED, runtime, system
from tilewright.runtime.drivers.cpu.native.structs import LANE, POOL, TABLE

_MUCH = 2**62
_GRAIN = 16  # programs per unit of cost
_FEW = 2**31  # programs: above, work is not multiplied but taken as much
_STEEPEST, _LITTLE = 4, 4096  # a cost rises to no more than a quarter of so many times itself and so many ticks at once
_PENANCE, _MOST_LOST = 16, 100  # run alone for so many times what was lost, of which so many times `cold_ticks` count
_STRIDE = 128  # scratch of different threads is apart by a multiple of this
_ARENA_ALIGNMENT = 64


def add_execute(module: Module) -> None:
    """Adds `execute` and its parts to the module."""
    _take_lane(module)
    _give_lane_back(module)
    _work_ahead(module)
    _is_worth_waking(module)
    _useful_threads(module)
    _run(module)
    _weigh(module)
    _learn(module)
    _execute(module)


def _take_lane(module: Module) -> None:
    """A lane with at least `size` bytes of memory that nobody else uses, or null. With the GIL held."""
    f = module.function("take_lane", "ptr", {"size": "i64"})
    table = runtime(f)
    lane = f.variable("ptr", f.get(TABLE, table, "lanes"))
    with f.when(lane.value.differs(0)) as found:
        f.put(TABLE, table, "lanes", f.get(LANE, lane.value, "next"))
    with found.otherwise():
        lane.set(f.call(system(f, "malloc"), "ptr", f.constant("i64", LANE.size)))
        with f.when(lane.value.equals(0)):
            f.give(0)
        for field in LANE.fields:
            f.put(LANE, lane.value, field, 0)
    with f.when(f.get(LANE, lane.value, "size") < f["size"]):
        _grow(f, lane.value)
    f.give(lane.value)


def _grow(f: Function, lane: Value) -> None:
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
    """Is this work, or the work of launches on the heels of one another, enough to wake the threads of the pool?"""
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


def _useful_threads(module: Module) -> None:
    """How many threads to use for so much work: 1 or the most that are allowed."""
    arguments = {"work": "i64", "total": "i64", "allowed": "i64", "started": "i64"}
    f = module.function("useful_threads", "i64", arguments)
    table = runtime(f)
    pool = f.get(TABLE, table, "pool")
    threads = f.variable("i64", f.get(POOL, pool, "threads"))
    for bound in (f["total"], f["allowed"]):
        with f.when((bound < threads.value) & (bound > 0)):
            threads.set(bound)
    with f.when(threads.value < 2):
        f.give(1)
    is_little = f["work"] <= f.get(TABLE, table, "hot_ticks")
    is_short = f["work"] <= f.get(TABLE, table, "cold_ticks")
    with f.when(is_little | (is_short & (f["started"] < f.get(TABLE, table, "alone_until")))):
        f.give(1)
    sleepers = f.load("i32", f.address(POOL, pool, "sleepers"), order="monotonic").to("i64")
    all_sleep = f.get(POOL, pool, "workers") <= sleepers
    with f.when(all_sleep), f.when(f.call("is_worth_waking", "i1", f["work"], f["started"]).equals(0)):
        f.give(1)
    f.give(threads.value)


def _run(module: Module) -> None:
    """Runs with the GIL released; gives how many threads took part."""
    f = module.function("run", "i64", SHARED)
    pool = f.get(TABLE, runtime(f), "pool")
    lock = f.address(POOL, pool, "lock")
    saved = f.call(system(f, "PyEval_SaveThread"), "ptr")
    took_part = f.variable("i64", 0)
    with f.when(f["threads"] > 1), f.when(_exchanged(f, lock, 1).equals(0)):
        took_part.set(f.call("share", "i64", pool, *(f[name] for name in SHARED)))
        _exchanged(f, lock, 0)
    with f.when(took_part.value.equals(0)):
        f.call(f["entry"], "void", f["launch"], f.constant("i64", 0), f["total"], f["scratch"])
        took_part.set(1)
    f.call(system(f, "PyEval_RestoreThread"), "void", saved)
    f.give(took_part.value)


def _exchanged(f: Function, place: Value, value: int) -> Value:
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
    f.store(old + ((f.choose(measured < most, measured, most) - old) >> 2), f["cost"])
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
        most = much * _MOST_LOST
        pause = f.choose(lost < most, lost, most) * _PENANCE
        f.put(TABLE, table, "alone_until", f.call("now", "i64") + pause)
    f.give()


def _execute(module: Module) -> None:
    """Runs a launch, with the GIL held on entry and exit; 0 when there is no memory for its scratch."""
    arguments = {"entry": "ptr", "launch": "ptr", "total": "i64", "scratch": "i64", "allowed": "i64", "cost": "ptr"}
    f = module.function("execute", "i32", arguments, exported=True)
    table, total = runtime(f), f["total"]
    with f.when(total < 1):
        f.give(1)
    started = f.call("now", "i64")
    work = f.call("work_ahead", "i64", f.load("i64", f["cost"]), total)
    threads = f.call("useful_threads", "i64", work, total, f["allowed"], started)
    stride = (f["scratch"] + (_STRIDE - 1)) & -_STRIDE
    lane = f.call("take_lane", "ptr", stride * threads)
    with f.when(lane.equals(0)):
        f.give(0)
    memory = f.get(LANE, lane, "memory")
    took_part = f.variable("i64", 1)
    keeps_gil = threads.equals(1) & (work <= f.get(TABLE, table, "gil_ticks"))
    is_short = work <= f.get(TABLE, table, "cold_ticks")
    with f.when(keeps_gil) as short:
        f.call(f["entry"], "void", f["launch"], f.constant("i64", 0), total, memory)
    with short.otherwise():
        took_part.set(f.call("run", "i64", f["entry"], f["launch"], total, memory, stride, threads, is_short))
    f.call("give_lane_back", "void", lane)
    f.call("learn", "void", f["cost"], f.call("now", "i64") - started, took_part.value, total, work, threads)
    f.give(1)
