"""`tilewright cache`: statistics, verification and deletion of the cache folder.

tilewright cache stats        how many kernels there are, how large, how old
tilewright cache verify       reads every file, and lists those that do not match their digest
tilewright cache clear        deletes all of it
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from tilewright.runtime.cache.folders import is_trusted
from tilewright.runtime.cache.store import damages
from tilewright.runtime.cache.upkeep import clean, entries, is_kept_file, remove
from tilewright.support import knobs


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The action, and what it takes."""
    command.add_argument("action", choices=ACTIONS, help="what to do with the cache folder")
    command.add_argument("--delete", action="store_true", help="verify: delete kernels that have damaged files")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns 1 if `verify` found damage or the folder cannot be used."""
    root = Path(knobs.cache.dir).expanduser()
    if not root.exists():
        print(f"{root}: not there")
        return 0
    if not is_trusted(root):
        return 1
    return ACTIONS[options.action](root, options)


def stats(root: Path, options: argparse.Namespace) -> int:
    """Print the number, the size and the age of the entries."""
    found = sorted(entries(root), key=lambda entry: entry.used)
    limit = knobs.tilewright.cache_size
    print(f"folder   {root}")
    print(f"entries  {len(found)}")
    print(f"size     {_size(sum(entry.size for entry in found))} of {_size(limit) if limit else 'any size'}")
    if found:
        print(f"used     from {_days(found[0].used)} to {_days(found[-1].used)} ago")
    return 0


def verify(root: Path, options: argparse.Namespace) -> int:
    """Read every file and print those that are not what was written."""
    found = sorted(entries(root), key=lambda entry: entry.folder)
    damaged = 0
    for entry in found:
        problems = list(damages(entry.folder))
        damaged += bool(problems)
        for problem in problems:
            print(f"{entry.folder.name}/{problem}")
        if problems and options.delete:
            remove(root, entry.folder)
    deleted = ", deleted" if damaged and options.delete else ""
    print(f"{len(found)} entries, {damaged} damaged{deleted}")
    return int(damaged > 0)


def clear(root: Path, options: argparse.Namespace) -> int:
    """Delete everything that Tilewright keeps there, and nothing else."""
    clean(root)
    found = list(entries(root))
    removed = sum(remove(root, entry.folder) for entry in found)
    for path in [path for path in root.iterdir() if is_kept_file(path.name)]:
        path.unlink(missing_ok=True)
    print(f"{removed} entries deleted, {_size(sum(entry.size for entry in found))}")
    return 0


ACTIONS: dict[str, Callable[[Path, argparse.Namespace], int]] = {"stats": stats, "verify": verify, "clear": clear}


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def _days(then: float) -> str:
    days = (time.time() - then) / 86400
    return f"{days:.0f} days" if days >= 1 else f"{days * 24:.0f} hours"
