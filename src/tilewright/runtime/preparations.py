"""How often this process did what later launches find done: built a kernel, chose a configuration.

before = Preparations.count
fn()
is_like_any_other = Preparations.count == before          # this call prepared nothing
"""

from __future__ import annotations


class Preparations:
    """Their number; whoever begins one adds to it."""

    count = 0
