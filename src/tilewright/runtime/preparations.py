"""A counter of what this process did that later launches find done: kernels built, configurations chosen.

before = Preparations.count
fn()
is_like_any_other = Preparations.count == before          # this call prepared nothing
"""

from __future__ import annotations


class Preparations:
    """The number of preparations; whoever begins one adds to it."""

    count = 0
