"""The disk cache: one folder per compiled kernel, readable by its owner only.

    ~/.tilewright/cache/3f…a0/        the digest of the cache key
        add.source  add.ttir  add.ttcir  add.llir      texts, for `kernel.asm`
        add.obj  add.image                             relocatable object; the same linked, ready to be mapped
        add.json                                       metadata, and the digest of each other file

Every file is written under another name and renamed, the JSON last, so an entry is complete or not there. Whatever does
not match its digest counts as absent: the kernel is compiled again and the entry replaced. A folder that cannot be read
or written costs one warning; kernels are then compiled in each process.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.support.hashing import hash_of

_FORMAT = 1
_serial = itertools.count()


class Entry(NamedTuple):
    """What the cache keeps of a kernel.

    Attributes:
        facts: JSON values: the metadata.
        files: contents by suffix (`ttir`, `image` …).
    """

    facts: Mapping[str, Any]
    files: Mapping[str, bytes]


class StoredEntry:
    """An entry on disk; a file is read, and checked against its digest, when it is asked for."""

    def __init__(self, folder: Path, stem: str, facts: Mapping[str, Any], digests: Mapping[str, str]) -> None:
        self.facts = facts
        self.suffixes = tuple(digests)
        self._folder, self._stem, self._digests = folder, stem, digests

    def read(self, suffix: str) -> bytes:
        """The content of the file with this suffix.

        Raises:
            OSError: the file is gone, or is not what was written.
        """
        path = self._folder / f"{self._stem}.{suffix}"
        content = path.read_bytes()
        if hash_of(content).hexdigest() != self._digests[suffix]:
            raise OSError(f"{path} is damaged: delete it, and it will be made again")
        return content


class DiskCache:
    """Compiled kernels below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._warned = False

    def load(self, digest: str, name: str) -> StoredEntry | None:
        """The entry for a cache key, or None when there is none that is whole.

        Args:
            digest: of the cache key.
            name: of the kernel.
        """
        folder, stem = self.root / digest, file_stem(name)
        try:
            text = (folder / f"{stem}.json").read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        try:
            body = json.loads(text)
            whole = body["digest"] == _digest_of(body["entry"]) and body["entry"]["format"] == _FORMAT
            return StoredEntry(folder, stem, body["entry"]["facts"], body["entry"]["files"]) if whole else None
        except (ValueError, KeyError, TypeError):
            return None

    def store(self, digest: str, name: str, entry: Entry) -> None:
        """Write an entry; where that is not possible, warn once and go on without."""
        folder, stem = self.root / digest, file_stem(name)
        digests = {suffix: hash_of(content).hexdigest() for suffix, content in entry.files.items()}
        body = {"format": _FORMAT, "facts": dict(entry.facts), "files": digests}
        index = json.dumps({"digest": _digest_of(body), "entry": body}).encode()
        try:
            self._make_root()
            folder.mkdir(mode=0o700, exist_ok=True)
            for suffix, content in entry.files.items():
                write_whole(folder / f"{stem}.{suffix}", content)
            write_whole(folder / f"{stem}.json", index)
        except OSError as error:
            self._warn(error)

    def _make_root(self) -> None:
        if not self.root.is_dir():
            self.root.parent.mkdir(parents=True, exist_ok=True)
            self.root.mkdir(mode=0o700, exist_ok=True)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            advice = "set TRITON_CACHE_DIR to a folder that is yours"
            warnings.warn(f"compiled kernels are not kept in {self.root}: {error}; {advice}", RuntimeWarning, 2)


def file_stem(name: str) -> str:
    """A kernel's name as part of a file name: it can neither leave the folder nor be too long."""
    return "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name[:100])


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees a part of it.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{next(_serial)}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _digest_of(body: Any) -> str:
    return hash_of(json.dumps(body, sort_keys=True).encode()).hexdigest()
