"""Cache managers: the storage of the files of a key. The interface is Triton's.

    manager = get_cache_manager(digest)                      # or the class that TRITON_CACHE_MANAGER names
    path = manager.put(b"…", "add.image")
    manager.get_file("add.image")                            # the same path, in any process; None if it is absent
    manager.put_group("add.json", {"add.image": path, …})    # these files belong together
    manager.get_group("add.json")                            # {"add.image": path, …}, or None unless all are there

`FileCacheManager` keeps the files of a key in the folder `<key>` of the cache folder, the group in `__grp__add.json`.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress

from tilewright.runtime import lazy_imports
from tilewright.runtime.cache.folders import (
    holds,
    is_trusted,
    make_private,
    remove_leftovers,
    warn_once,
    write_whole,
)
from tilewright.support import knobs

GROUP = "__grp__"
USED_STEP = 3600
"""Seconds after which another use of a file is noted."""

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class CacheManager(ABC):
    """Keeps the files of one key.

    Args:
        override: the files are those that a user put in the place of stages.
        dump: the files are stages written for a user to read.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    @abstractmethod
    def get_file(self, filename: str) -> str | None:
        """The path of a file, or None when it is not there."""

    @abstractmethod
    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Keep a file; returns its path."""

    @abstractmethod
    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths, by name, of the files that belong together, or None unless all are there."""

    @abstractmethod
    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Note which files belong together; returns the path of the note."""


class FileCacheManager(CacheManager):
    """Keeps files in folders."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key)
        root = knobs.cache.dump_dir if dump else knobs.cache.override_dir if override else knobs.cache.dir
        self._root = os.path.abspath(os.path.expanduser(root))
        self.cache_dir = f"{self._root}{os.sep}{_plain(key)}"
        self._is_dump = dump
        self._counts = not dump and not override
        self._stored = 0
        self._has_folder = False

    def has_file(self, filename: str) -> bool:
        return self.get_file(filename) is not None

    def get_file(self, filename: str) -> str | None:
        """The path of a file; None when it is not there, or when others may have put it there."""
        path = self._path(filename)
        try:
            age = time.time() - os.stat(path).st_mtime
            if not self._is_dump and not is_trusted(self._root):
                return None
            if age > USED_STEP:
                _note_use(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            warn_once(self._root, str(error))
            return None
        return path

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Keep a file; returns its path.

        Raises:
            OSError: the file cannot be written, or others may write to the cache folder.
            ValueError: the name would lead out of the folder.
        """
        path = self._path(filename)
        content = data if isinstance(data, bytes) else str(data).encode()
        if not self._has_folder:
            self._make_folder()
        if holds(path, content):  # writing it again takes ten times as long, and more where disks are written at once
            _note_use(path)
            return path
        try:
            write_whole(path, content)
        except FileNotFoundError:  # another process has just evicted this key
            self._make_folder()
            write_whole(path, content)
        self._stored += len(content)
        return path

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The paths of the files that belong together; None unless all are there, and the note about them is whole."""
        note = self.get_file(GROUP + filename)
        if note is None:
            return None
        try:
            with open(note, "rb") as file:
                children = json.load(file)["child_paths"].items()
            paths = {name: os.path.join(self.cache_dir, path) for name, path in children}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return paths if all(map(os.path.exists, paths.values())) else None

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Note which files belong together; returns the path of the note.

        Paths in the folder are noted by name, so that a cache folder may be moved.

        Raises:
            OSError, ValueError: as for `put`.
        """
        paths = {name: path.removeprefix(f"{self.cache_dir}{os.sep}") for name, path in group.items()}
        note = self.put(json.dumps({"child_paths": paths}), GROUP + filename)
        remove_leftovers(self.cache_dir)
        if self._counts:
            lazy_imports.note_stored(self._root, self._stored)
            self._stored = 0
        return note

    def _path(self, filename: str) -> str:
        return f"{self.cache_dir}{os.sep}{_plain(filename)}"

    def _make_folder(self) -> None:
        if self._is_dump:
            os.makedirs(self._root, exist_ok=True)
        else:
            make_private(self._root)
        with suppress(FileExistsError):
            os.mkdir(self.cache_dir, 0o700)
        self._has_folder = True


def get_cache_manager(key: str) -> CacheManager:
    """The manager that keeps what was compiled for a key.

    Args:
        key: hexadecimal.
    """
    return _manager_class()(base32(key))


def get_override_manager(key: str) -> CacheManager:
    """The manager of the files that a user put in the place of stages."""
    return _manager_class()(base32(key), override=True)


def get_dump_manager(key: str) -> CacheManager:
    """The manager of stages that are written for a user to read."""
    return _manager_class()(base32(key), dump=True)


def base32(key: str) -> str:
    """A hexadecimal key as the name of a folder, in base 32 without padding: shorter, and the same in any case."""
    digits = -(-len(key) * 4 // 5)
    number = int(key, 16) << digits * 5 - len(key) * 4
    return "".join([_LETTERS[number >> place & 31] for place in range(digits * 5 - 5, -1, -5)])


def _manager_class() -> type[CacheManager]:
    return knobs.cache.manager_class or FileCacheManager


def _plain(name: str) -> str:
    """The name, if it is that of something in a folder."""
    if name in ("", ".", "..") or "/" in name or os.sep in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file")
    return name


def _note_use(path: str) -> None:
    """The age of its files decides which entry is evicted when the cache is too large."""
    try:
        os.utime(path)
    except OSError:
        return  # a folder that is only read
