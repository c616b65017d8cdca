"""Python's search for garbage, which rests while much is made that stays: modules, and what a compilation works on.

    with resting():
        from tilewright.compiler.compile import compile_kernel

A search looks at all objects that are younger than the last one. Where modules were imported meanwhile, next to all of
these objects live as long as the process does, so they become objects of the oldest generation without a look.
Otherwise the very next object would have them all looked at: that is 7 ms of 78 for `import tilewright`, NumPy's import
included, and 12 ms of 149 for the first compilation of a process.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.support.system import SYSTEM

_resting: list[object] = []
"""One entry per `resting` that has told the collector to rest; of those at once, the first."""


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
