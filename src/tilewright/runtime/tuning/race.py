"""Which of several launches is the fastest, measured as briefly as the answer allows.

Everybody runs twice; who then takes more than half as long again as the leader is out. The others go on in turns, so
that a slow moment of the machine hits all alike, until the time is used up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tilewright.runtime.testing.measure import summary

Runner = TypeVar("Runner")

FIRST_RUNS = 2
FALL_BEHIND = 1.5
"""A runner this much slower than the leader in the first runs cannot win."""
MILLISECONDS_EACH = 10.0
"""Time for each runner that is left."""
MAX_RUNS = 100
QUANTILES = (0.5, 0.2, 0.8)


def race(runners: Mapping[Runner, Callable[[], float]]) -> dict[Runner, list[float]]:
    """Measure all.

    Args:
        runners: what to measure: each call is one run, and returns its milliseconds.

    Returns: median and the quantiles 0.2 and 0.8 in milliseconds.
    """
    times = {runner: [run() for _ in range(FIRST_RUNS)] for runner, run in runners.items()}
    limit = FALL_BEHIND * min((min(found) for found in times.values()), default=0.0)
    left = {runner: run for runner, run in runners.items() if min(times[runner]) <= limit}
    budget = MILLISECONDS_EACH * len(left)
    for _ in range(MAX_RUNS):
        if budget <= 0:
            break
        for runner, run in left.items():
            times[runner].append(run())
            budget -= times[runner][-1]
    return {runner: summary(found, QUANTILES) for runner, found in times.items()}
