"""A cache shared by machines: files come from a backend, such as Redis, and are kept in the local folder too.

    TRITON_CACHE_MANAGER=tilewright.runtime.cache.remote:RemoteCacheManager
    TRITON_REMOTE_CACHE_BACKEND=tilewright.runtime.cache.redis:RedisRemoteCacheBackend
    TILEWRIGHT_CACHE_KEY=…                      # entries are signed, and unsigned ones refused

A backend may fail in any way, including by being slow: it is called on a thread of its own, and callers wait at most
PATIENCE. After its first failure one warning is given, and the backend is not called for a minute; meanwhile local
entries are used and everything else is compiled. Compiled kernels are machine code: without TILEWRIGHT_CACHE_KEY,
anyone who can write to the backend can run code in this process.
"""

from __future__ import annotations

import hmac
import json
import threading
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from tilewright.runtime.cache.managers import GROUP, CacheManager, FileCacheManager
from tilewright.support import knobs

PAUSE = 60.0
"""Seconds for which a backend that failed is left alone."""

SLOW = 0.5
"""Seconds after which an answer counts as a failure, though it is used: compiling takes less."""

PATIENCE = 3.0
"""Seconds after which an answer is not waited for any longer."""

_SEAL = b"tilewright-hmac-sha256:"
_TAG_BYTES = 32

Result = TypeVar("Result")


class RemoteCacheBackend:
    """Talks to where the files of one key are; the interface is Triton's."""

    def __init__(self, key: str) -> None:
        self.key = key

    @abstractmethod
    def get(self, filenames: list[str]) -> dict[str, bytes]:
        """The contents of those files that are there."""

    @abstractmethod
    def put(self, filename: str, data: bytes) -> None:
        """Keep a file."""


class RemoteCacheManager(CacheManager):
    """Keeps files with the backend that TRITON_REMOTE_CACHE_BACKEND names, and in the local cache folder."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key)
        self._local = FileCacheManager(key, override=override, dump=dump)
        self._is_local = override or dump
        backend_class = knobs.cache.remote_manager_class
        if backend_class is None:
            raise RuntimeError("RemoteCacheManager needs a backend: set TRITON_REMOTE_CACHE_BACKEND")
        self._class: type[RemoteCacheBackend] = backend_class
        self._backend: RemoteCacheBackend | None = None

    def get_file(self, filename: str) -> str | None:
        """The path of a file of which the backend has a good copy; the local one's while the backend is left alone."""
        if self._is_local:
            return self._local.get_file(filename)
        found = self._fetch([filename])
        if found is None:
            return self._local.get_file(filename)
        return self._keep(filename, found[filename]) if filename in found else None

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Keep a file; returns the path of the local copy.

        Raises:
            OSError, ValueError: there can be no local copy.
        """
        if not self._is_local:
            content = data if isinstance(data, bytes) else str(data).encode()
            message = sealed(self._full_name(filename), content)
            self._guarded(lambda backend: backend.put(filename, message))
        return self._local.put(data, filename, binary=binary)

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The local paths of the files that belong together; None unless the backend has all of them."""
        found = None if self._is_local else self._fetch([GROUP + filename])
        if found is None:
            return self._local.get_group(filename)
        names = _names(found.get(GROUP + filename, b""))
        children = self._fetch(names) if names else None
        if not children or len(children) != len(names):
            return None
        try:
            return {name: self._keep(name, children[name]) for name in names}
        except ValueError:  # names that are none come from a damaged note
            return None

    def put_group(self, filename: str, group: Mapping[str, str]) -> str:
        """Note which files belong together; returns the path of the local note."""
        if not self._is_local:
            note = json.dumps({"child_paths": sorted(group)}).encode()
            message = sealed(self._full_name(GROUP + filename), note)
            self._guarded(lambda backend: backend.put(GROUP + filename, message))
        return self._local.put_group(filename, group)

    def _fetch(self, filenames: Sequence[str]) -> dict[str, bytes] | None:
        """The authentic contents that the backend has of these files; None if it cannot be reached."""
        found = self._guarded(lambda backend: dict(backend.get(list(filenames))))
        if found is None:
            return None
        contents = {name: opened(self._full_name(name), found.get(name)) for name in filenames}
        return {name: content for name, content in contents.items() if content is not None}

    def _keep(self, filename: str, content: bytes) -> str:
        """The path of a local copy, which is written unless it is there."""
        path = self._local.get_file(filename)
        if path is not None and _has_content(path, content):
            return path
        return self._local.put(content, filename)

    def _full_name(self, filename: str) -> str:
        return f"{self.key}/{filename}"

    def _guarded(self, action: Callable[[RemoteCacheBackend], Result]) -> Result | None:
        """The result of `action`; None when the backend fails, or failed less than a minute ago."""
        if time.monotonic() < _paused_until.get(self._class, 0.0):
            return None
        answer: _Answer[Result] = _Answer()
        begin = time.monotonic()
        try:
            threading.Thread(target=self._ask, args=(action, answer), daemon=True, name="remote cache").start()
        except RuntimeError:  # Python is about to end
            return None
        if not answer.is_there.wait(PATIENCE):
            self._backend = None  # the thread may keep it for ever
            answer.error = TimeoutError(f"there is no answer after {PATIENCE:g} s")
        elif time.monotonic() - begin > SLOW and answer.error is None:
            _pause(self._class, TimeoutError(f"an answer took {time.monotonic() - begin:.1f} s"))
        if answer.error is not None:
            _pause(self._class, answer.error)
            return None
        return answer.result

    def _ask(self, action: Callable[[RemoteCacheBackend], Result], answer: _Answer[Result]) -> None:
        try:
            backend = self._backend or self._class(self.key)
            result = action(backend)
            self._backend, answer.result = backend, result
        except BaseException as error:  # noqa: BLE001 - a backend is anybody's code, and a launch must not fail with it
            answer.error = error
        answer.is_there.set()


class _Answer(Generic[Result]):
    """The answer of a backend: its result, or the error with which it failed."""

    def __init__(self) -> None:
        self.is_there = threading.Event()
        self.result: Result | None = None
        self.error: BaseException | None = None


_paused_until: dict[type, float] = {}


def _pause(backend: type, error: BaseException) -> None:
    is_first = backend not in _paused_until
    _paused_until[backend] = time.monotonic() + PAUSE
    if is_first:
        what = f"{type(error).__name__}: {error}"
        text = f"the remote cache {backend.__name__} failed ({what}); kernels come from local files or are compiled"
        warnings.warn(text, RuntimeWarning, 2)


def _names(note: bytes) -> list[str]:
    """The names in a note about files that belong together, which may be any bytes."""
    try:
        names = list(json.loads(note)["child_paths"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return names if all(isinstance(name, str) for name in names) else []


def _has_content(path: str, content: bytes) -> bool:
    try:
        return Path(path).read_bytes() == content
    except OSError:
        return False


def sealed(name: str, content: bytes) -> bytes:
    """The content as it is sent: with a key, after a tag that only who has the key can make."""
    key = knobs.tilewright.cache_key
    return _SEAL + _tag(key, name, content) + content if key else content


def opened(name: str, received: object) -> bytes | None:
    """The content of what was received; None if it is not what was sent under this name by someone with our key."""
    if not isinstance(received, bytes):
        return None
    key, is_sealed = knobs.tilewright.cache_key, received.startswith(_SEAL)
    if not key:
        return None if is_sealed else received
    tag, content = received[len(_SEAL) : len(_SEAL) + _TAG_BYTES], received[len(_SEAL) + _TAG_BYTES :]
    return content if is_sealed and hmac.compare_digest(tag, _tag(key, name, content)) else None


def _tag(key: str, name: str, content: bytes) -> bytes:
    """HMAC-SHA256 of name and content; the length keeps one from running into the other."""
    return hmac.digest(key.encode(), b"%d:%s" % (len(name.encode()), name.encode()) + content, "sha256")
