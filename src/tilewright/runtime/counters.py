"""A counter of what this process did that later launches find done: kernels built, configurations chosen.

before = PreparationCounter.count
fn()
is_like_any_other = PreparationCounter.count == before          # this call prepared nothing
"""

from __future__ import annotations


class PreparationCounter:
    """The number of preparations; whoever begins one adds to it."""

    count = 0
