"""Contests: several functions do the same work, in turns, and a fast time of each counts.

    race({"ours": f, "numpy": g}, seconds=1.0)     # {"ours": 1.1e-5, "numpy": 1.3e-5}

Taking turns makes a change of clock frequency, or a busy neighbour, hit everybody. The sample counts than which four in
five are slower: the very fastest is no good measure, because now and then the clock of a virtual machine loses time.
With one thread the clock is the CPU time of the process, so being interrupted does not count; with more it is the wall
clock, and everybody starts when the threads of the one before sleep: OpenBLAS's workers spin for 100 ms after
a call, OpenMP's for some 20, and with as many CPUs as threads they take a CPU away from the next in turn.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Clock = Callable[[], float]

SAMPLE = 2e-4
"""Seconds that a sample takes at least: short calls are repeated."""
LONG_SAMPLE = 5e-3
"""The same where one waits for quiet in front of each sample."""
ROUNDS = 7
"""Min samples taken of each then."""


def clock_for(threads: int) -> Clock:
    """The clock for contests with so many threads."""
    return time.process_time if threads == 1 else time.perf_counter


def seconds_of(function: Callable[[], object], count: int, clock: Clock) -> float:
    """Seconds per call, from one sample of `count` calls."""
    start = clock()
    for _ in range(count):
        function()
    return (clock() - start) / count


def race(
    functions: Mapping[str, Callable[[], object]], *, seconds: float, clock: Clock, threads: int = 1
) -> dict[str, float]:
    """Seconds that each function needs; the whole contest takes about `seconds`, and at least one round.

    A function that has used up its share of the time drops out of further rounds. With several threads there are more
    rounds, each in quiet.
    """
    least, rounds = (SAMPLE, 1) if threads == 1 else (LONG_SAMPLE, ROUNDS)
    counts = {name: _calls_per_sample(function, clock, least) for name, function in functions.items()}
    samples: dict[str, list[float]] = {name: [] for name in functions}
    left = dict.fromkeys(functions, seconds / len(functions))
    gc.collect()
    gc.disable()
    while racing := [name for name in functions if left[name] > 0 or len(samples[name]) < rounds]:
        for name in racing:
            if threads > 1:
                wait_for_quiet()
            start = time.perf_counter()
            samples[name].append(seconds_of(functions[name], counts[name], clock))
            left[name] -= time.perf_counter() - start
    gc.enable()
    return {name: fast(costs) for name, costs in samples.items()}


def wait_for_quiet() -> None:
    """Return when no thread of this process computes any more, or after half a second."""
    for _ in range(250):
        before = time.process_time()
        time.sleep(2e-3)
        if time.process_time() - before < 2e-4:
            return


def fast(samples: Sequence[float]) -> float:
    """The sample than which four in five are slower."""
    return sorted(samples)[len(samples) // 5]


def _calls_per_sample(function: Callable[[], object], clock: Clock, least: float) -> int:
    """The number of calls that fill a sample; counting them also warms up."""
    once = seconds_of(function, 1, clock)
    if once < 0.1:
        once = seconds_of(function, 3, clock)
    return max(1, int(least / max(once, 1e-9)))


def median_row(name: str, ours: Sequence[float], theirs: Sequence[float], *, bar: float) -> dict[str, Any]:
    """The kernel whose ratio is the median of all."""
    middle = sorted(zip(ours, theirs, strict=True), key=lambda pair: pair[1] / pair[0])[len(ours) // 2]
    return {
        "row": f"{name}, median of {len(ours)} kernels",
        "ours": middle[0],
        "peers": {"triton": middle[1]},
        "against": "triton",
        "bar": bar,
    }
