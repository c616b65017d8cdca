"""Compiled kernels in the cache: complete entries, each file checked against its digest.

    ~/.tilewright/cache/GZTG…A/       the digest of the cache key, in base 32
        add.source  add.ttir  add.llir                 texts for `kernel.asm`, which derives ttcir from ttir
        add.obj  add.image                             relocatable object; the same linked, ready to be mapped
        add.json                                       metadata, the key, and the digest of each other file
        __grp__add.json                                the files of this entry

The cache manager stores the files. A file that does not match its digest counts as absent, and so does an entry of
another key, should files have been renamed: the kernel is compiled again and the entry replaced. A folder that cannot
be read or written costs one warning; kernels are then compiled in each process.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.runtime.cache.folders import file_stem, warn_once
from tilewright.runtime.cache.managers import GROUP, get_cache_manager
from tilewright.support import knobs
from tilewright.support.hashing import hash_of
from tilewright.support.named_tuple import NamedTuple

if TYPE_CHECKING:  # importing it takes as long as two launches from the cache
    from pathlib import Path

_FORMAT, _FILES, _KEY = "cache_format", "cache_files", "cache_key"
_FORMAT_NUMBER = 4


class Entry(NamedTuple):
    """A kernel as the cache keeps it.

    Attributes:
        facts: JSON values: the metadata.
        files: contents by suffix (`ttir`, `image` …).
    """

    facts: Mapping[str, Any]
    files: Mapping[str, bytes]


class StoredEntry:
    """An entry in the cache; a file is read, and checked against its digest, when it is asked for."""

    def __init__(
        self,
        stem: str,
        key: str,
        digests: Mapping[str, str],
        facts: Mapping[str, Any],
        path_of: Callable[[str], str | None],
    ) -> None:
        self.key, self.facts = key, facts
        self.suffixes = tuple(digests)
        self._stem, self._digests, self._path_of = stem, digests, path_of

    @property
    def group(self) -> Mapping[str, str]:
        """The path of each file by its name, for hooks."""
        return _Group([f"{self._stem}.{suffix}" for suffix in (*self.suffixes, "json")], self._path_of)

    def read(self, suffix: str) -> bytes:
        """The content of the file with this suffix.

        Raises:
            OSError: the file is gone, or is not what was written.
        """
        path = self._path_of(f"{self._stem}.{suffix}")
        if path is None:
            raise FileNotFoundError(f"{self._stem}.{suffix} is not in the cache")
        content = _content(path)
        if hash_of(content).hexdigest() != self._digests[suffix]:
            raise OSError(f"{path} is damaged")
        return content


class _Group(Mapping[str, str]):
    """Paths of files, asked for when they are used: a remote cache would fetch them all otherwise."""

    def __init__(self, names: list[str], path_of: Callable[[str], str | None]) -> None:
        self._names, self._path_of = names, path_of

    def __getitem__(self, name: str) -> str:
        path = self._path_of(name) if name in self._names else None
        if path is None:
            raise KeyError(name)
        return path

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def load(digest: str, name: str) -> StoredEntry | None:
    """The entry for a cache key, or None when there is none that is whole."""
    stem = file_stem(name)
    manager = get_cache_manager(digest)
    try:
        path = manager.get_file(f"{stem}.json")
        if path is None:
            return None
        entry = _entry(stem, _content(path), manager.get_file)
        if entry is not None and entry.key == digest:
            return entry
        warn_of_damage(f"{path} is {'damaged' if entry is None else 'of another key, perhaps of another machine'}")
        return None
    except FileNotFoundError:  # another process has just evicted it
        return None
    except OSError as error:
        warn_of_damage(str(error))
        return None


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _entry(stem: str, index: bytes, path_of: Callable[[str], str | None]) -> StoredEntry | None:
    """The entry that an index describes, or None if it is not as it was written."""
    body = b"{" + index[_HEAD_BYTES:]
    if index != _index(body):
        return None
    facts = json.loads(body)
    if facts.pop(_FORMAT) != _FORMAT_NUMBER:
        return None
    return StoredEntry(stem, facts.pop(_KEY), facts.pop(_FILES), facts, path_of)


def _index(body: bytes) -> bytes:
    """The file that describes an entry: the JSON object `body` with its digest as a further first field."""
    return b'{"cache_digest": "%s", %s' % (hash_of(body).hexdigest().encode(), body[1:])


def store(digest: str, name: str, entry: Entry) -> dict[str, str]:
    """Keep an entry; where that is not possible, warn once and go on without.

    Returns:
        The path of each file by its name; empty where the entry could not be kept.
    """
    stem = file_stem(name)
    digests = {suffix: hash_of(content).hexdigest() for suffix, content in entry.files.items()}
    body = {**entry.facts, _FORMAT: _FORMAT_NUMBER, _KEY: digest, _FILES: digests}
    files = {f"{stem}.{suffix}": content for suffix, content in entry.files.items()}
    files[f"{stem}.json"] = _index(json.dumps(body).encode())
    try:
        manager = get_cache_manager(digest)
        group = {file: manager.put(content, file) for file, content in files.items()}
        manager.put_group(f"{stem}.json", group)
    except OSError as error:
        warn_once(knobs.cache.dir, str(error))
        return {}
    return group


_HEAD_BYTES = len(_index(b""))


def damages(folder: Path) -> Iterator[str]:
    """The problems of the kernels in the folder of one key: `add.image is damaged`."""
    for note in sorted(folder.glob(f"{GROUP}*.json")):
        index = note.name.removeprefix(GROUP)
        stem = index.removesuffix(".json")
        try:
            content = (folder / index).read_bytes()
        except OSError as error:
            yield f"{index}: {error.strerror}"
            continue
        entry = _entry(stem, content, lambda name: os.fspath(folder / name))
        if entry is None:
            yield f"{index} is damaged"
            continue
        for suffix in entry.suffixes:
            try:
                entry.read(suffix)
            except OSError:
                yield f"{stem}.{suffix} is damaged or missing"


def warn_of_damage(what: str) -> None:
    """Say, once per process, that the cache is damaged."""
    if not _told:
        _told.append(what)
        warnings.warn(f"{what}; the kernel is compiled again (other damage is not reported)", RuntimeWarning, 2)


_told: list[str] = []
