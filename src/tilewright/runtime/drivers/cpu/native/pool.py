"""The thread pool: a job is `entry(launch, begin, end, scratch)` over programs 0 … total-1, in chunks claimed in order.

Machine code gives the number of the first program that it did not run: `end`, unless somebody is to look after the
launch (`interrupts.py`).

    caller                                       worker
    fill in the job, open the gate               wait until the generation changes: spin for a while, then sleep
    generation += 1, wake sleepers               enter the gate (+1); if it is closed, leave
    claim and run chunks until none is left      take a seat, claim and run chunks until none is left
    close the gate                               leave the gate (-1)
    wait until nobody is inside

The caller waits only for workers that came in before it closed the gate, not for those that sleep or are descheduled.
A job is only written while the gate is closed and nobody is inside, and only read inside; so no worker sees half a job.
Programs start in order, so a program may wait (in a spin lock, say) for one with a lower number. Programs that are
known to wait are handed out one by one: such a one may wait for any later one while fewer wait than there are threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.code import ALWAYS, Function, Module
from tilewright.runtime.drivers.cpu.native.structs import JOB, LANE, LAUNCH_CONTROL, OPEN, POOL, RUNTIME, TABLE

FUTEX_WAIT, FUTEX_WAKE = 128, 129
_FAULTS = (4, 5, 6, 7, 8, 11, 31)  # SIGILL, TRAP, ABRT, BUS, FPE, SEGV, SYS: of the thread that caused them
_ALL_OTHERS = ~sum(1 << number - 1 for number in _FAULTS)
_SIG_SETMASK = 2
_PAUSES_BEFORE_YIELD = 300


@dataclass(frozen=True)
class Processor:
    """The differences between processors: the pause instruction, the clock, system calls, signal handlers.

    `counter_at`: where the context that a handler gets has the program counter.
    """

    pause: str
    pause_declaration: str
    counter: str
    futex: int
    gettid: int
    counter_at: int


_PAUSE, _HINT = "declare void @llvm.x86.sse2.pause()", "declare void @llvm.aarch64.hint(i32)"
PROCESSORS = {
    "x86-64": Processor("call void @llvm.x86.sse2.pause()", _PAUSE, "cycle", futex=202, gettid=186, counter_at=168),
    "aarch64": Processor("call void @llvm.aarch64.hint(i32 1)", _HINT, "steady", futex=98, gettid=178, counter_at=440),
}


def add_pool(module: Module, machine: Processor) -> None:
    """Adds `now`, `work`, `worker`, `start_workers` and `share` to the module."""
    module.declarations += [
        f"@{RUNTIME} = externally_initialized constant ptr null",
        machine.pause_declaration,
        f"declare i64 @llvm.read{machine.counter}counter()",
        "declare ptr @llvm.thread.pointer()",
    ]
    _now(module, machine)
    _run_chunk(module)
    _work(module)
    _await_job(module, machine)
    _worker(module)
    _start_workers(module)
    _wait_until_empty(module, machine)
    _share(module, machine)


def runtime(f: Function) -> Lanes:
    """The address of the TABLE."""
    return f.emit("ptr", f"load ptr, ptr @{RUNTIME}, align 8")


def system(f: Function, name: str) -> Lanes:
    """The address of a function of the Python or C library."""
    return f.get(TABLE, runtime(f), name)


def _now(module: Module, machine: Processor) -> None:
    """A clock that costs a few nanoseconds; `set_up` knows how long its ticks are."""
    f = module.function("now", "i64", {}, exported=True)
    f.give(f.emit("i64", f"call i64 @llvm.read{machine.counter}counter()"))


def _work(module: Module) -> None:
    """Claims chunks and runs them until none is left: one per thread of the size `first`, then smaller ones.

    Ends early when the launch is stopped.
    """
    f = module.function("work", "void", {"pool": "ptr", "scratch": "ptr"})
    pool = f["pool"]
    job = f.address(POOL, pool, "job")
    entry, launch, total, chunk = (f.get(JOB, job, name) for name in ("entry", "launch", "total", "chunk"))
    threads, first = f.get(JOB, job, "limit"), f.get(JOB, job, "first")
    control = f.load("ptr", launch, LAUNCH_CONTROL)
    with f.repeat() as loop:
        turn = f.update("add", f.address(POOL, pool, "next"), 1)
        is_first = turn < threads
        begin = f.choose(is_first, turn * first, threads * first + (turn - threads) * chunk)
        loop.leave_when(begin >= total)
        size, rest = f.choose(is_first, first, chunk), total - begin
        end = begin + f.choose(rest < size, rest, size)
        f.call("run_chunk", "void", entry, launch, begin, end, f["scratch"], control)
        loop.leave_when(f.load("i64", f.address(LANE, control, "stop"), order="monotonic").differs(0))
    f.give()


def _run_chunk(module: Module) -> None:
    """Programs begin … end-1 on this thread, or fewer when the launch is stopped."""
    parameters = {"entry": "ptr", "launch": "ptr", "begin": "i64", "end": "i64", "scratch": "ptr", "control": "ptr"}
    f = module.function("run_chunk", "void", parameters, inlining=ALWAYS)
    end, program = f["end"], f.variable("i64", f["begin"])
    with f.repeat() as loop:
        program.set(f.call(f["entry"], "i64", f["launch"], program.value, end, f["scratch"]))
        loop.leave_when(program.value >= end)
        loop.leave_when(f.call("look", "i64", f["control"]).differs(0))
    f.give()


def _await_job(module: Module, machine: Processor) -> None:
    """Waits until the generation is not `seen`; gives the new one."""
    f = module.function("await_job", "i32", {"pool": "ptr", "seen": "i32"})
    pool = f["pool"]
    started = f.call("now", "i64")
    patience = f.get(POOL, pool, "spin_ticks")
    with f.repeat() as spin:
        generation = f.load("i32", pool, order="acquire")
        with f.when(generation.differs(f["seen"])):
            f.give(generation)
        f.statement(machine.pause)
        spin.leave_when(f.call("now", "i64") - started > patience)
    f.update("add", f.address(POOL, pool, "sleepers"), 1, kind="i32")
    with f.repeat() as sleep:
        sleep.leave_when(f.load("i32", pool, order="seq_cst").differs(f["seen"]))
        futex(f, machine, pool, FUTEX_WAIT, f["seen"])
    f.update("sub", f.address(POOL, pool, "sleepers"), 1, kind="i32")
    f.give(f.load("i32", pool, order="acquire"))


def futex(f: Function, machine: Processor, place: Lanes, operation: int, value: Lanes) -> None:
    """The futex system call. Jobs wait on the generation, which is the first field of the pool."""
    nothing = f.constant("ptr", 0)
    number, what = f.constant("i64", machine.futex), f.constant("i32", operation)
    f.call_variadic(system(f, "syscall"), "i64", number, place, what, value, nothing, nothing, f.constant("i32", 0))


@contextmanager
def blocked_signals(f: Function) -> Iterator[None]:
    """Makes threads started in the `with` leave signals to Python's threads, but for those of a fault of their own.

    A fault whose signal is blocked kills the process without a word to anybody.
    """
    blocked, previous = f.stack("[16 x i64]"), f.stack("[16 x i64]")
    for word in range(16):
        f.store(f.constant("i64", -1 if word else _ALL_OTHERS), blocked, 8 * word)
    how = f.constant("i32", _SIG_SETMASK)
    f.call(system(f, "pthread_sigmask"), "i32", how, blocked, previous)
    yield
    f.call(system(f, "pthread_sigmask"), "i32", how, previous, f.constant("ptr", 0))


def _worker(module: Module) -> None:
    """The life of a thread."""
    f = module.function("worker", "ptr", {"pool": "ptr"})
    pool = f["pool"]
    gate = f.address(POOL, pool, "gate")
    seen = f.variable("i32", 0)
    with f.repeat():
        seen.set(f.call("await_job", "i32", pool, seen.value))
        with f.when((f.load("i64", gate, order="acquire") & OPEN).differs(0)):
            with f.when((f.update("add", gate, 1) & OPEN).differs(0)):
                _take_part(f, pool)
            f.update("sub", gate, 1)
    f.give(0)


def _take_part(f: Function, pool: Lanes) -> None:
    seat = f.update("add", f.address(POOL, pool, "seats"), 1)
    job = f.address(POOL, pool, "job")
    with f.when(seat < f.get(JOB, job, "limit")):
        offset = seat * f.get(JOB, job, "stride")
        f.call("work", "void", pool, f.at(f.get(JOB, job, "scratch"), offset))


def _start_workers(module: Module) -> None:
    """Starts threads until there are `wanted`, or the system gives no more."""
    f = module.function("start_workers", "void", {"pool": "ptr", "wanted": "i64"})
    pool = f["pool"]
    with f.when(f.get(POOL, pool, "workers") >= f["wanted"]):
        f.give()
    worker = f.emit("ptr", "getelementptr i8, ptr @worker, i64 0")
    with blocked_signals(f), f.repeat() as loop:
        workers = f.get(POOL, pool, "workers")
        loop.leave_when(workers >= f["wanted"])
        failed = f.call(system(f, "pthread_create"), "i32", f.stack("i64"), f.constant("ptr", 0), worker, pool)
        loop.leave_when(failed.differs(0))
        f.put(POOL, pool, "workers", workers + 1)
    f.give()


def _wait_until_empty(module: Module, machine: Processor) -> None:
    """Waits until no thread is at work; meanwhile the caller looks after the launch."""
    f = module.function("wait_until_empty", "void", {"gate": "ptr", "control": "ptr"})
    spins, ticks = f.variable("i64", 0), f.address(LANE, f["control"], "tick")
    seen = f.variable("i64", f.load("i64", ticks, order="monotonic"))
    with f.repeat() as loop:
        loop.leave_when(f.load("i64", f["gate"], order="acquire").equals(0))
        tick = f.load("i64", ticks, order="monotonic")
        with f.when(tick.differs(seen.value)):
            seen.set(tick)
            f.call("look", "i64", f["control"])
        spins.set(spins.value + 1)
        with f.when(spins.value < _PAUSES_BEFORE_YIELD) as patient:
            f.statement(machine.pause)
        with patient.otherwise():
            f.call(system(f, "sched_yield"), "i32")
    f.give()


SHARED = {
    "entry": "ptr",
    "launch": "ptr",
    "total": "i64",
    "scratch": "ptr",
    "stride": "i64",
    "threads": "i64",
    "division": "i64",
}
"""The parameters of `share`, which describe a job."""

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


def _share(module: Module, machine: Processor) -> None:
    """Runs a job on up to `threads` threads; gives how many took part. The caller holds the pool's lock."""
    f = module.function("share", "i64", {"pool": "ptr", **SHARED})
    pool, threads = f["pool"], f["threads"]
    f.call("start_workers", "void", pool, threads - 1)
    job = f.address(POOL, pool, "job")
    for field in ("entry", "launch", "total", "scratch", "stride"):
        f.put(JOB, job, field, f[field])
    f.put(JOB, job, "limit", threads)
    _divide(f, job)
    f.put(POOL, pool, "next", 0)
    f.put(POOL, pool, "seats", 1)
    gate = f.address(POOL, pool, "gate")
    f.update("or", gate, OPEN)
    f.update("add", f.address(POOL, pool, "generation"), 1, kind="i32")
    with f.when(f.load("i32", f.address(POOL, pool, "sleepers"), order="seq_cst") > 0):
        futex(f, machine, pool, FUTEX_WAKE, (threads - 1).to("i32"))
    f.call("work", "void", pool, f["scratch"])
    f.update("and", gate, ~OPEN)
    f.call("wait_until_empty", "void", gate, f.load("ptr", f["launch"], LAUNCH_CONTROL))
    seats = f.get(POOL, pool, "seats")
    f.give(f.choose(seats < threads, seats, threads))
