"""The thread pool: a job is `entry(launch, begin, end, scratch)` over programs 0 … total-1, in chunks claimed in order.

Machine code returns the number of the first program that it did not run: `end`, unless the launch was interrupted
(`interrupts.py`).

    caller                                       worker
    fill in the job, open the gate               wait until the generation changes: spin for a while, then sleep
    generation += 1, wake sleepers               enter the gate (+1); if it is closed, leave
    claim and run chunks until none is left      take a seat, claim and run chunks until none is left
    close the gate                               leave the gate (-1)
    wait until no worker is inside

The caller waits only for workers that came in before it closed the gate, not for those that sleep or are descheduled.
If another library lends its threads (`use_team`), a job is one of its parallel regions instead: each thread has a part
of the programs, and takes chunks of the others' when it is done.

A job is only written while the gate is closed and no worker is inside, and only read inside; so no worker sees a
partially written job. Programs start in order, so a program may wait (in a spin lock, say) for one with a lower number.
Programs that are known to wait are handed out one by one: such a program may wait for any later one as long as fewer
programs wait than there are threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, I32, I64, Function, Processor, Ptr, native
from tilewright.runtime.drivers.cpu.native.structs import APART, JOB, LANE, LAUNCH_CONTROL, OPEN, POOL, RUNTIME, TABLE

_PAUSES_BEFORE_YIELD = 300


def declarations(processor: Processor) -> list[str]:
    """The declarations that the functions of all files refer to."""
    return [
        f"@{RUNTIME} = externally_initialized constant ptr null",
        processor.pause_declaration,
        "declare i64 @llvm.readcyclecounter()",
        "declare ptr @llvm.thread.pointer()",
    ]


def runtime(f: Function) -> Lanes:
    """The address of the TABLE."""
    return f.emit("ptr", f"load ptr, ptr @{RUNTIME}, align 8")


def system(f: Function, name: str) -> Lanes:
    """The address of a function of the Python or C library."""
    return f.get(TABLE, runtime(f), name)


@native("i64", exported=True)
def _now(f: Function) -> None:
    """A clock that costs a few nanoseconds; `set_up` knows how long its ticks are."""
    f.give(f.emit("i64", "call i64 @llvm.readcyclecounter()"))


@native("void", exported=True)
def _publish(f: Function, place: Ptr, address: Ptr) -> None:
    """Writes an address for other threads, which see what was written before if they see it."""
    f.store(address, place, order="release")


@native("void")
def _work(f: Function, pool: Ptr, scratch: Ptr) -> None:
    """Claims chunks and runs them until none is left: one per thread of the size `first`, then smaller ones.

    Ends early when the launch is stopped.
    """
    job = f.address(POOL, pool, "job")
    entry, launch, total, chunk = (f.get(JOB, job, name) for name in ("entry", "launch", "total", "chunk"))
    threads, first = f.get(JOB, job, "limit"), f.get(JOB, job, "first")
    control = f.load("ptr", launch, LAUNCH_CONTROL)
    with f.repeat() as loop:
        claim = f.update("add", f.address(POOL, pool, "next"), 1)
        is_first = claim < threads
        begin = f.choose(is_first, claim * first, threads * first + (claim - threads) * chunk)
        loop.leave_when(begin >= total)
        size, rest = f.choose(is_first, first, chunk), total - begin
        end = begin + f.choose(rest < size, rest, size)
        f.call("run_chunk", "void", entry, launch, begin, end, scratch, control)
        with f.when(f.load("i64", f.address(LANE, control, "waiting"), order="monotonic").differs(0)):
            f.call("count_anew", "void", control)
        loop.leave_when(f.load("i64", f.address(LANE, control, "stop"), order="monotonic").differs(0))


@native("void", inlining=ALWAYS)
def _run_chunk(f: Function, entry: Ptr, launch: Ptr, begin: I64, end: I64, scratch: Ptr, control: Ptr) -> None:
    """Programs begin … end-1 on this thread, or fewer when the launch is stopped."""
    program = f.variable("i64", begin)
    with f.repeat() as loop:
        program.set(f.call(entry, "i64", launch, program.value, end, scratch))
        loop.leave_when(program.value >= end)
        loop.leave_when(f.call("look", "i64", control).differs(0))


@native("i32")
def _await_job(f: Function, pool: Ptr, seen: I32) -> None:
    """Waits until the generation, the first field of the pool, is not `seen`; gives the new one."""
    started = f.call("now", "i64")
    patience = f.get(POOL, pool, "spin_ticks")
    with f.repeat() as spin:
        generation = f.load("i32", pool, order="acquire")
        f.give_when(generation.differs(seen), generation)
        f.statement(f.processor.pause)
        spin.leave_when(f.call("now", "i64") - started > patience)
    f.update("add", f.address(POOL, pool, "sleepers"), 1, kind="i32")
    with f.repeat() as sleep:
        sleep.leave_when(f.load("i32", pool, order="seq_cst").differs(seen))
        f.system.wait_while(f, pool, seen)
    f.update("sub", f.address(POOL, pool, "sleepers"), 1, kind="i32")
    f.give(f.load("i32", pool, order="acquire"))


@native("ptr")
def _worker(f: Function, pool: Ptr) -> None:
    """The life of a thread."""
    seen = f.variable("i32", 0)
    with f.repeat():
        seen.set(f.call("await_job", "i32", pool, seen.value))
        with _inside(f, pool):
            _take_part(f, pool)
    f.give(0)


@contextmanager
def _inside(f: Function, pool: Lanes) -> Iterator[None]:
    """While the gate is open, enters it for what is written inside."""
    gate = f.address(POOL, pool, "gate")
    with f.when((f.load("i64", gate, order="acquire") & OPEN).differs(0)):
        with f.when((f.update("add", gate, 1) & OPEN).differs(0)):
            yield
        f.update("sub", gate, 1)


def _take_part(f: Function, pool: Lanes) -> None:
    seat = f.update("add", f.address(POOL, pool, "seats"), 1)
    job = f.address(POOL, pool, "job")
    with f.when(seat < f.get(JOB, job, "limit")):
        offset = seat * f.get(JOB, job, "stride")
        f.call("work", "void", pool, f.at(f.get(JOB, job, "scratch"), offset))


@native("void")
def _start_workers(f: Function, pool: Ptr, wanted: I64) -> None:
    """Starts threads until there are `wanted`, or the system gives no more."""
    f.give_when(f.get(POOL, pool, "workers") >= wanted)
    with f.system.without_signals(f), f.repeat() as loop:
        workers = f.get(POOL, pool, "workers")
        loop.leave_when(workers >= wanted)
        loop.leave_when(f.system.start_thread(f, "worker", pool))
        f.put(POOL, pool, "workers", workers + 1)


@native("void")
def _wait_until_empty(f: Function, gate: Ptr, control: Ptr) -> None:
    """Waits until no thread is at work; meanwhile the caller looks after the launch."""
    spins, ticks = f.variable("i64", 0), f.address(LANE, control, "tick")
    seen = f.variable("i64", f.load("i64", ticks, order="monotonic"))
    with f.repeat() as loop:
        loop.leave_when(f.load("i64", gate, order="acquire").equals(0))
        tick = f.load("i64", ticks, order="monotonic")
        with f.when(tick.differs(seen.value)):
            seen.set(tick)
            f.call("look", "i64", control)
        spins.set(spins.value + 1)
        with f.when(spins.value < _PAUSES_BEFORE_YIELD) as patient:
            f.statement(f.processor.pause)
        with patient.otherwise():
            f.system.give_way(f)


GRADUALLY, EVENLY, SINGLY = 0, 1, 2
"""The ways to divide a job among threads."""


def _divide(f: Function, job: Lanes) -> None:
    """The sizes of chunks. All of a short job, and half of a long one, is divided evenly beforehand.

    Then most programs run where they ran the last time, and find their data in that core's cache. The other half of a
    long job keeps all threads busy to the end. Programs that wait for others have a chunk each.
    """
    total, threads, division = f["total"], f["threads"], f["division"]
    chunk = total // (threads * 8)
    is_small = (chunk < 1) | division.equals(SINGLY)
    half = f.choose(is_small, 1, total // (threads * 2))
    f.put(JOB, job, "first", f.choose(division.equals(EVENLY), (total + threads - 1) // threads, half))
    f.put(JOB, job, "chunk", f.choose(is_small, 1, chunk))


@native("i64")
def _share(
    f: Function, pool: Ptr, entry: Ptr, launch: Ptr, total: I64, scratch: Ptr, stride: I64, threads: I64, division: I64
) -> None:
    """Runs a job on up to `threads` threads; gives how many took part. The caller holds the pool's lock."""
    job = f.address(POOL, pool, "job")
    for field in ("entry", "launch", "total", "scratch", "stride"):
        f.put(JOB, job, field, f[field])
    f.put(JOB, job, "limit", threads)
    f.put(POOL, pool, "seats", 1)
    with f.when(f.get(TABLE, runtime(f), "team").differs(0) & division.differs(SINGLY)) as by_team:
        f.call("share_with_team", "void", pool, division)
    with by_team.otherwise():
        _share_with_workers(f, pool, job)
    seats = f.get(POOL, pool, "seats")
    f.give(f.choose(seats < threads, seats, threads))


def _share_with_workers(f: Function, pool: Lanes, job: Lanes) -> None:
    threads = f["threads"]
    _divide(f, job)
    f.put(POOL, pool, "next", 0)
    f.call("start_workers", "void", pool, threads - 1)
    f.update("or", f.address(POOL, pool, "gate"), OPEN)
    f.update("add", f.address(POOL, pool, "generation"), 1, kind="i32")
    with f.when(f.load("i32", f.address(POOL, pool, "sleepers"), order="seq_cst") > 0):
        f.system.wake(f, pool, (threads - 1).to("i32"))
    f.call("work", "void", pool, f["scratch"])
    _close(f, pool, f["launch"])


def _close(f: Function, pool: Lanes, launch: Lanes) -> None:
    gate = f.address(POOL, pool, "gate")
    f.update("and", gate, ~OPEN)
    f.call("wait_until_empty", "void", gate, f.load("ptr", launch, LAUNCH_CONTROL))


@native("void")
def _share_with_team(f: Function, pool: Ptr, division: I64) -> None:
    """Runs the job in a region of another library, with all of its threads; those above the limit leave at once."""
    job = f.address(POOL, pool, "job")
    total, threads, scratch, stride = (f.get(JOB, job, name) for name in ("total", "limit", "scratch", "stride"))
    part = (total + threads - 1) // threads
    eighth = part // 8
    f.put(JOB, job, "first", part)
    f.put(JOB, job, "chunk", f.choose(division.equals(EVENLY), part, f.choose(eighth < 1, 1, eighth)))
    with f.counted(threads) as number:
        f.store(f.constant("i64", 0), _counter(f, scratch, stride, number))
    f.update("or", f.address(POOL, pool, "gate"), OPEN)
    member, nothing = f.emit("ptr", "getelementptr i8, ptr @member, i64 0"), f.constant("i32", 0)
    f.call(f.get(TABLE, runtime(f), "team"), "void", member, pool, nothing, nothing)


def _counter(f: Function, scratch: Lanes, stride: Lanes, number: Lanes) -> Lanes:
    """The place behind a thread's scratch memory where the programs that were claimed of its part are counted."""
    return f.at(scratch, (number + 1) * stride - APART)


@native("void")
def _member(f: Function, pool: Ptr) -> None:
    """Does what one thread of a team does."""
    job = f.address(POOL, pool, "job")
    number = f.call(f.get(TABLE, runtime(f), "team_number"), "i32").widened("i64")
    f.give_when(number >= f.get(JOB, job, "limit"))
    with f.when(number.equals(0)) as leads:
        f.call("work_on_parts", "void", pool, number)
        _close(f, pool, f.get(JOB, job, "launch"))
    with leads.otherwise(), _inside(f, pool):
        f.update("add", f.address(POOL, pool, "seats"), 1)
        f.call("work_on_parts", "void", pool, number)


@native("void")
def _work_on_parts(f: Function, pool: Ptr, number: I64) -> None:
    """Claims chunks of this thread's own part of the programs, and then of the others' until none is left.

    Products of the library divide their rows so, which are then in the caches of the cores that go on with them.
    """
    job = f.address(POOL, pool, "job")
    launch, total, part, chunk = (f.get(JOB, job, name) for name in ("launch", "total", "first", "chunk"))
    threads, scratch, stride = (f.get(JOB, job, name) for name in ("limit", "scratch", "stride"))
    control = f.load("ptr", launch, LAUNCH_CONTROL)
    with f.counted(threads) as others:
        claim = number + others
        owner = f.choose(claim < threads, claim, claim - threads)
        begin, bound = owner * part, (owner + 1) * part
        end = f.choose(bound < total, bound, total)
        with f.repeat() as loop:
            first = begin + f.update("add", _counter(f, scratch, stride, owner), chunk)
            loop.leave_when(first >= end)
            last = f.choose(first + chunk < end, first + chunk, end)
            mine = f.at(scratch, number * stride)
            f.call("run_chunk", "void", f.get(JOB, job, "entry"), launch, first, last, mine, control)
            f.give_when(f.load("i64", f.address(LANE, control, "stop"), order="monotonic").differs(0))
