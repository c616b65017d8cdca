"""Python's search for cyclic garbage rests while a kernel is compiled.

    with resting(): …      # all that is made is in use until the end, and garbage then

Searches in between find nothing, take up to a fifth of the time, and make what they look at old, so that only a search
through all objects of the program finds it: a third of a second where torch is imported.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_resting: list[object] = []
"""One entry per compilation that has told the collector to rest; of compilations at once, the first."""


@contextmanager
def resting() -> Iterator[None]:
    """Let the collector rest, unless it does anyway."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _resting.append(None)
    try:
        yield
    finally:
        _resting.pop()
        gc.enable()


def _wake_in_child() -> None:
    """A child that another thread forked meanwhile has no compilation that would end."""
    if _resting:
        _resting.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_wake_in_child)
