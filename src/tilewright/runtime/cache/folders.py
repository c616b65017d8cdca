"""Folders to which only this user can have written, and files that are complete or absent.

is_trusted("/home/me/.tilewright/cache")             True; another user's folder is refused with a warning
write_whole("/…/add.json", b"{}")                    written under another name, then renamed
file_stem("../../etc/passwd")                        "______etc_passwd"

A compiled kernel is machine code that this process runs, so its origin matters:

    no folder yet                                        made, mode 0700
    ours, and writable only by this user                 used as it is
    ours, and our own group may write, which has no      used; before something is written, the group may not
      other members (many systems make such folders)       write to it any more
    others may write to it, or it is another user's      not used, with a warning: its files may not be ours
    a link                                               used if it is ours or root's, and its target is acceptable
"""

from __future__ import annotations

import os
import re
import time
import warnings
from contextlib import suppress
from typing import TypeAlias

from tilewright.support.system import SYSTEM

AnyPath: TypeAlias = "str | os.PathLike[str]"

TEMPORARY = ".tmp"
MAX_STEM = 100
PATIENCE = 3600
"""Seconds after which a temporary file is a leftover; writing one takes milliseconds."""

_warned: set[str] = set()


class UntrustedFolderError(PermissionError):
    """A folder that others may write to: nothing is read from it or written to it."""


def is_trusted(folder: AnyPath) -> bool:
    """Whether the folder exists and only this user can have put files into it. Warns of one that is not ours.

    A link to a folder is good if we, or root, made the link.
    """
    try:
        problem = problem_of(folder)
    except FileNotFoundError:
        return False
    if problem:
        warn_once(folder, problem)
    return problem is None


def problem_of(folder: AnyPath) -> str | None:
    """The reason why a folder cannot be trusted; None if it can.

    Raises:
        FileNotFoundError: it is not there.
    """
    return SYSTEM.problem_of(folder)


def make_private(folder: AnyPath) -> None:
    """Make the folder, open to its owner only, and those above it; see that it can be trusted.

    Raises:
        UntrustedFolderError: others may write to it.
        OSError: it cannot be made.
    """
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    if not is_trusted(folder):
        raise UntrustedFolderError(f"{folder} is not used: others may write to it")
    SYSTEM.make_private(folder)


def warn_once(folder: AnyPath, problem: str) -> None:
    """Say, once per process and folder, that compiled kernels are not kept there."""
    if str(folder) not in _warned:
        _warned.add(str(folder))
        advice = "set TRITON_CACHE_DIR to a folder that is yours"
        warnings.warn(f"compiled kernels are not kept in {folder}: {problem}; {advice}", RuntimeWarning, 2)


def file_stem(name: str) -> str:
    """A kernel's name as part of a file name: it can neither leave the folder nor be too long."""
    if name.isascii() and name.isidentifier() and len(name) <= MAX_STEM:
        return name
    return re.sub(r"[^A-Za-z0-9_-]", "_", name[:MAX_STEM])


def write_whole(path: AnyPath, content: bytes) -> None:
    """Write a file so that no process ever sees a part of it.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    temporary = f"{os.fspath(path)}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY}"
    try:
        # Nothing of that name may be there, not even a link: it would lead the content elsewhere.
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SYSTEM.open_flags, 0o600)
        try:  # without a file object, which takes a tenth of the time
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        SYSTEM.replace(temporary, path)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def holds(path: AnyPath, content: bytes) -> bool:
    """Whether `path` is a file, not a link, with exactly this content."""
    try:
        file = os.open(path, os.O_RDONLY | SYSTEM.open_flags)
    except OSError:
        return False
    try:
        return os.read(file, len(content) + 1) == content
    except OSError:
        return False
    finally:
        os.close(file)


def remove_leftovers(folder: AnyPath) -> None:
    """Delete temporary files of processes that ended before they could rename them, as far as that is possible."""
    with suppress(OSError):
        with os.scandir(folder) as found:
            leftovers = [entry for entry in found if entry.name.endswith(TEMPORARY) and _is_abandoned(entry)]
        for entry in leftovers:
            with suppress(FileNotFoundError):
                os.unlink(entry.path)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    """Whether the process in the name of a temporary file is gone, or had time enough.

    In another container or on another machine the number may mean another process: a file that is deleted under the
    hands of its writer is written again.
    """
    try:
        process = int(entry.name.split(".")[-3])
    except (ValueError, IndexError):
        return False
    if not SYSTEM.is_running(process):
        return True
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > PATIENCE
    except FileNotFoundError:
        return False
