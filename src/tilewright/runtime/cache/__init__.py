"""What is kept of compiled kernels."""

from __future__ import annotations

from pathlib import Path

from tilewright.runtime.cache import store as _store
from tilewright.runtime.cache.folders import file_stem, write_whole
from tilewright.runtime.cache.store import Entry, StoredEntry

__all__ = ["DiskCache", "Entry", "StoredEntry", "file_stem", "write_whole"]


class DiskCache:
    """TRANSITION: build.py goes over to `store.load` and `store.store`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def load(self, digest: str, name: str) -> StoredEntry | None:
        """See `store.load`."""
        return _store.load(digest, name)

    def store(self, digest: str, name: str, entry: Entry) -> dict[str, str]:
        """See `store.store`."""
        return _store.store(digest, name, entry)
