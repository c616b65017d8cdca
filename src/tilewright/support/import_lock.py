"""The lock of lazy imports, which a fork waits for: see `locks.py`, which everybody takes it from."""

from __future__ import annotations

from _thread import RLock

importing = RLock()
