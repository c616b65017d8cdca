"""Locks that are safe across forks: that of lazy imports, which a fork waits for, and those that the child frees.

    with importing:
        from tilewright.compiler.compile import compile_kernel

A module that another thread is importing stays locked in the child of a fork, where that thread does not exist: the
child would wait for it for ever.

A forked child can take a `fork_safe_lock` even if a thread of the parent held it during the fork.

`RLock` comes from `_thread`: importing `threading` is a fiftieth of the time that importing this package takes.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable
from weakref import WeakSet

from tilewright.support.system import SYSTEM
from tilewright.support.system.interface import importing

__all__ = ["fork_safe_lock", "importing"]

SYSTEM.when_forked(before=importing.acquire, parent=importing.release, child=importing.release)


_made: WeakSet[RLock] = WeakSet()
_repairs: list[Callable[[], object]] = []


def fork_safe_lock(repair: Callable[[], object] | None = None) -> RLock:
    """A reentrant lock that is free in the child of a fork.

    Args:
        repair: called there, for what the lock guards may have been left half-done.
    """
    lock = RLock()
    _made.add(lock)
    if repair is not None:
        _repairs.append(repair)
    return lock


def _free_all() -> None:
    for lock in tuple(_made):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # CPython has it for this very purpose
    for repair in _repairs:
        repair()


SYSTEM.when_forked(child=_free_all)
