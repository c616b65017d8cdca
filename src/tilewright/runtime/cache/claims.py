"""Claims: when several processes miss the same entry, one compiles and the others wait for its result.

    with Claim(root, "GZTG…A"):                 # the first continues at once, the others when it has ended
        stored = load(digest, name)             # so the holder looks again before it compiles

A claim is a locked file in the cache folder. The system releases the lock when the process ends, however it ends, so no
process waits for one that is gone. A process that exists but makes no progress, because it was stopped for instance, is
waited for as long as `PATIENCE` says. A claim only saves work: a process that cannot get it compiles without it, and
two that compile the same kernel write the same entry.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from tilewright.runtime.cache.folders import PATIENCE as LEFT_AFTER
from tilewright.runtime.cache.folders import AnyPath, make_private
from tilewright.support.system import SYSTEM, is_raised_by_handler

SUFFIX = ".claim"
PATIENCE = 10.0
"""Seconds to wait for another process; a compilation takes less than one."""
_FIRST_STEP, _LONGEST_STEP = 0.001, 0.02
"""Seconds between two looks at the lock, at first and at most."""


class Claim:
    """The right to make something, of one process at a time; for `with`.

    Args:
        root: the cache folder.
        name: of what is to be made, as the name of a file.
    """

    def __init__(self, root: AnyPath, name: str) -> None:
        self._root = os.path.abspath(os.path.expanduser(root))
        self._path = f"{self._root}{os.sep}{name}{SUFFIX}"
        self._file = -1
        self._is_held = self._is_first = False

    def __enter__(self) -> Claim:
        try:
            self._is_first = not os.path.isdir(self._root)
            make_private(self._root)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | SYSTEM.open_flags, 0o600)
            self._is_held = self._wait()
        except OSError as error:  # a folder that cannot be used, a file system without locks
            if is_raised_by_handler(error):
                self.__exit__()
                raise
        return self

    def _wait(self) -> bool:
        """Wait for the lock; False if another process has it for too long."""
        deadline, step = time.monotonic() + PATIENCE, _FIRST_STEP
        while not SYSTEM.try_lock(self._file):
            if time.monotonic() > deadline:
                return False
            time.sleep(step)
            step = min(2 * step, _LONGEST_STEP)
        return True

    def __exit__(self, *_error: object) -> None:
        """Give the claim back; who waits finds the lock free, whether or not the file still has its name."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if self._is_held:  # after closing, since Windows deletes no open file; whoever gets in between finds the result
            with suppress(OSError):
                os.unlink(self._path)
        if self._is_first:  # if nothing was made, the folder is empty and goes, too
            with suppress(OSError):
                os.rmdir(self._root)


def remove_left_claims(root: AnyPath) -> None:
    """Delete the files of claims whose processes ended in the middle, an hour ago or more.

    Raises:
        OSError: the folder cannot be read.
    """
    with os.scandir(root) as found:
        entries = [entry for entry in found if entry.name.endswith(SUFFIX)]
    for entry in entries:
        with suppress(OSError):
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFT_AFTER:
                os.unlink(entry.path)
