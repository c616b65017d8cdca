"""Finds the fastest of several launches, measured as briefly as the answer allows.

Each runs twice; one that then takes half as long again as the leader is out. The others run some more, and only those
close to the leader go on until the time is used up. They run in turns, so that a slow moment of the machine hits all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tilewright.runtime.testing.measure import summary

Runner = TypeVar("Runner")

HEATS = ((2, 1.5), (4, 1.15), (10, 1.05))
"""Runs of each heat, and the max time relative to the leader's with which a runner stays in the race."""
MILLISECONDS_EACH = 10.0
"""Milliseconds for each runner of a heat; one that needs more has run often enough after its first run."""
QUANTILES = (0.5, 0.2, 0.8)


def race(runners: Mapping[Runner, Callable[[], float]]) -> dict[Runner, list[float]]:
    """Measure all.

    Args:
        runners: what to measure: each call is one run, and returns its milliseconds.

    Returns: median and the quantiles 0.2 and 0.8 in milliseconds.
    """
    times: dict[Runner, list[float]] = {runner: [] for runner in runners}
    left = list(runners)
    for runs, slack in HEATS:
        _heat({runner: runners[runner] for runner in left}, runs, times)
        limit = slack * min((min(times[runner]) for runner in left), default=0.0)
        left = [runner for runner in left if min(times[runner]) <= limit]
    return {runner: summary(found, QUANTILES) for runner, found in times.items()}


def _heat(runners: Mapping[Runner, Callable[[], float]], runs: int, times: dict[Runner, list[float]]) -> None:
    """Each runner runs `runs` times, or once and until the time is used up."""
    budget = MILLISECONDS_EACH * len(runners)
    for _ in range(runs):
        for runner, run in runners.items():
            times[runner].append(run())
            budget -= times[runner][-1]
        if budget <= 0:
            break
