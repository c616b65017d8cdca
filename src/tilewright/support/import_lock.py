"""The lock round imports that are done when they are needed. A fork waits for it.

    with importing:
        from tilewright.compiler.compile import compile_kernel

A module that another thread is importing stays locked in the child of a fork, where that thread does not exist: the
child would wait for it for ever.
"""

from __future__ import annotations

import os
from _thread import RLock  # as in `functools`: importing `threading` takes time

importing = RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=importing.acquire, after_in_parent=importing.release, after_in_child=importing.release)
