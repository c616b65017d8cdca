"""Pauses of Python's garbage collector while many lasting objects are made: modules, and data of a compilation.

    with resting():
        from tilewright.compiler.compile import compile_kernel

A collection visits all objects made since the last one. If modules were imported meanwhile, almost all of these objects
live as long as the process, so they are moved to the oldest generation without a visit. Otherwise the next allocation
would cause a visit of all of them: that is 7 ms of 78 for `import tilewright`, NumPy's import included, and 12 ms of
149 for the first compilation of a process.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.support.system import SYSTEM

_resting: list[object] = []
"""One entry per `resting` that has disabled the collector; of those at once, the first."""


@contextmanager
def resting() -> Iterator[None]:
    """Let the collector rest, unless it does anyway.

    What is made inside and is garbage afterwards is found by the next search, but where modules were imported.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _resting.append(None)
    known = len(sys.modules)
    try:
        yield
    finally:
        _resting.pop()
        if len(sys.modules) != known:
            _grow_old()
        gc.enable()


def _grow_old() -> None:
    """Let all objects be of the oldest generation; not where the program has frozen some, which stay so."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


def _wake_in_child() -> None:
    """A child that another thread forked meanwhile has no `resting` that would end."""
    if _resting:
        _resting.clear()
        gc.enable()


SYSTEM.when_forked(child=_wake_in_child)
