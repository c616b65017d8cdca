"""The size limit of the cache folder: its entries, and which of them are evicted.

    note_stored(root, 30_000)       after an entry was written; evicts when the limit is passed
    entries(root)                   every entry, with its size and when it was last used

The amount stored is the length of the file `usage`, in KiB: every process appends as many bytes as it stored KiB, so no
process waits for another, and the folder is only walked when the limit is reached. The walk measures the actual sizes,
removes the least recently used entries until a fifth of the limit is free, and sets `usage` to the rest. An entry is
renamed before its files are deleted, so another process finds it complete or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tilewright.runtime.cache.claims import SUFFIX as CLAIM
from tilewright.runtime.cache.claims import remove_left_claims
from tilewright.runtime.cache.folders import TEMPORARY, remove_leftovers
from tilewright.support import knobs
from tilewright.support.system import SYSTEM

USAGE = "usage"
UNIT = 1024
SHARE_KEPT = 0.8
_KEY = re.compile(r"[A-Z2-7]{52}")
_REMOVED = ".removed-"
_FOREIGN = (".cubin", ".hsaco", ".ptx", ".so")
"""Files of Triton: its entries, should they be in the same folder, are left alone."""


class CachedEntry(NamedTuple):
    """One folder of the cache.

    Attributes:
        size: in bytes.
        used: when it was used last, in seconds since 1970, to the hour.
    """

    folder: Path
    size: int
    used: float


def note_stored(folder: str | os.PathLike[str], size: int) -> None:
    """Count what was stored, and make room where it is too much; never fails."""
    root, limit = Path(folder), knobs.tilewright.cache_size
    with suppress(OSError):
        total = _count(root, size)
        if limit and total > limit:
            evict(root, int(limit * SHARE_KEPT))


def _count(root: Path, size: int) -> int:
    """Add to `usage`; returns how many bytes were stored in all. A new file starts with what is there already."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | SYSTEM.open_flags
    usage = os.open(root / USAGE, flags, 0o600)
    try:
        units = size // UNIT + 1
        if os.fstat(usage).st_size == 0:
            units = max(units, sum(entry.size for entry in entries(root)) // UNIT)
        os.write(usage, b"\n" * units)
        return os.fstat(usage).st_size * UNIT
    finally:
        os.close(usage)


def evict(root: Path, limit: int) -> int:
    """Remove the entries that were used least recently until at most `limit` bytes are left; returns how many went.

    One process at a time does this; another returns at once.

    Raises:
        OSError: the folder cannot be read.
    """
    usage = os.open(root / USAGE, os.O_RDWR | os.O_CREAT | SYSTEM.open_flags, 0o600)
    try:
        if not SYSTEM.try_lock(usage):
            return 0
        clean(root)
        found = sorted(entries(root), key=lambda entry: entry.used)
        total, removed = sum(entry.size for entry in found), 0
        for entry in found:
            if total <= limit:
                break
            removed += remove(root, entry.folder)
            total -= entry.size
        os.ftruncate(usage, total // UNIT)
        return removed
    finally:
        os.close(usage)


def entries(root: Path) -> Iterator[CachedEntry]:
    """Every entry of the cache folder, in no order."""
    for folder in _in(root):
        if _KEY.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
            with suppress(OSError):
                entry = _measured(Path(folder.path))
                if entry:
                    yield entry


def _in(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


def _measured(folder: Path) -> CachedEntry | None:
    size, used = 0, 0.0
    for file in _in(folder):
        if file.name.endswith(_FOREIGN):
            return None
        facts = file.stat(follow_symlinks=False)
        size += facts.st_size
        used = max(used, facts.st_mtime)
    return CachedEntry(folder, size, used)


def remove(root: Path, folder: Path) -> bool:
    """Remove an entry; False when another process was faster, or it cannot be removed."""
    aside = root / f"{_REMOVED}{os.urandom(8).hex()}"
    try:
        folder.rename(aside)
        _delete(aside)
    except OSError:
        return False
    return True


def clean(root: Path) -> None:
    """Delete what processes left that ended in the middle of something."""
    remove_leftovers(root)
    remove_left_claims(root)
    for found in _in(root):
        if not found.is_dir(follow_symlinks=False):
            continue
        with suppress(OSError):
            if found.name.startswith(_REMOVED):
                _delete(Path(found.path))
            elif _KEY.fullmatch(found.name):
                remove_leftovers(Path(found.path))


def _delete(folder: Path) -> None:
    for file in _in(folder):
        Path(file.path).unlink(missing_ok=True)
    folder.rmdir()


def is_kept_file(name: str) -> bool:
    """Whether a file directly in the cache folder is one of ours: the native runtime, the count, claims, leftovers."""
    return (
        name == USAGE or name.endswith(CLAIM) or (name.startswith("runtime-") and name.endswith((".blob", TEMPORARY)))
    )
