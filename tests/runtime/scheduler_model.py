"""A model of the thread pool on up to 64 cores: claims in the order of time, with what each step costs.

How many programs a chunk has is asked of the pool's own description (`_divide` in `native/pool.py`), computed on
numbers instead of written as LLVM IR; `_claimed` follows `_work`. Every shared counter is one cache line, which goes
from core to core: read-modify-writes of it wait for each other.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.drivers.cpu.native import pool


@dataclass(frozen=True)
class Costs:
    """The times that the machine takes, in microseconds.

    Attributes:
        handover: until a thread that spins sees a job (0.6 to 1.1 measured).
        waking: until a thread that sleeps runs (10 to 16 measured).
        calling: what the caller spends on each thread that it wakes.
        line: a read-modify-write of a cache line that another core has just written.
        core, socket: memory that one core, and all of them together, move in a microsecond, in bytes.
    """

    handover: float = 1.1
    waking: float = 16.0
    calling: float = 1.0
    line: float = 0.1
    core: float = 34e3
    socket: float = 300e3


class Number(int):
    """An integer with the comparison of a native value."""

    def equals(self, other: int) -> bool:
        return self == other


class Numbers:
    """Stands for the native function that `_divide` writes: arguments are numbers, and so are results."""

    def __init__(self, total: int, threads: int, division: int) -> None:
        self.arguments = {"total": Number(total), "threads": Number(threads), "division": Number(division)}
        self.found: dict[str, int] = {}

    def __getitem__(self, name: str) -> Number:
        return self.arguments[name]

    def choose(self, condition: bool, chosen: int, other: int) -> int:
        return chosen if condition else other

    def put(self, struct: object, place: object, field: str, value: int) -> None:
        self.found[field] = value


ARRIVES, TAKES_PART, CALLER = 0, 1, 2
"""The states of a thread: its first claim is the next step, it has claimed, it is the one that launches."""


def sizes(total: int, threads: int, division: int) -> tuple[int, int]:
    """The programs in each of the first chunks, one per thread, and in later ones."""
    numbers: Any = Numbers(total, threads, division)
    pool._divide(numbers, numbers)
    return numbers.found["first"], numbers.found["chunk"]


def _claimed(turn: int, threads: int, first: int, chunk: int, total: int) -> range:
    is_first = turn < threads
    begin = turn * first if is_first else threads * first + (turn - threads) * chunk
    return range(min(begin, total), min(begin + (first if is_first else chunk), total))


class Line:
    """A counter that all cores update."""

    def __init__(self, cost: float) -> None:
        self.cost, self.free = cost, 0.0

    def update(self, now: float) -> float:
        """When an update that begins now is done."""
        self.free = max(now, self.free) + self.cost
        return self.free


def elapsed(
    total: int,
    work: Callable[[int], float],
    threads: int,
    *,
    division: int = pool.GRADUALLY,
    asleep: bool = False,
    moved: float = 0.0,
    costs: Costs = Costs(),
) -> float:
    """The microseconds of a launch of `total` programs, each of which takes `work(number)` and moves so many bytes."""
    rate = min(costs.core, costs.socket / threads)

    def takes(program: int) -> float:
        return max(work(program), moved / rate)

    if threads == 1:
        return sum(map(takes, range(total)))
    first, chunk = sizes(total, threads, division)
    gate, seats, following = (Line(costs.line) for _ in range(3))
    woken = costs.calling * (threads - 1) if asleep else 0.0
    waits = [costs.waking + costs.calling * number if asleep else costs.handover for number in range(1, threads)]
    entering = sorted(seats.update(gate.update(arrival)) for arrival in waits)
    ready = [(woken, CALLER), *((at, ARRIVES) for at in entering)]
    turn, ends, closed = 0, [0.0], float("inf")
    while ready:
        now, who = heapq.heappop(ready)
        if who == ARRIVES and now > closed:
            continue  # nobody waits for a thread that comes now
        claimed = _claimed(turn, threads, first, chunk, total)
        at, turn = following.update(now), turn + 1
        if claimed:
            heapq.heappush(ready, (at + sum(map(takes, claimed)), max(who, TAKES_PART)))
        else:
            ends.append(gate.update(at))
            closed = ends[-1] if who == CALLER else closed
    return max(ends)


def speed_up(total: int, work: Callable[[int], float], threads: int, **more: Any) -> float:
    """How many times as fast as on one thread."""
    return elapsed(total, work, 1, moved=more.get("moved", 0.0)) / elapsed(total, work, threads, **more)
