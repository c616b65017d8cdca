"""The name of a compiled kernel in the disk cache: one frozen record with all inputs, and its digest.

Only inputs that can change the code are part of it: launch-only options and settings are not.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache

from tilewright.support.hashing import hash_of
from tilewright.support.locks import importing
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM

PACKAGE = os.path.dirname(os.path.dirname(__file__))
_BEGIN = time.time_ns() - 20_000_000
"""The time at which this process imported the package, in nanoseconds; dates of files lag behind by a clock's tick."""


class CacheKey(NamedTuple):
    """Everything that the compiled code depends on, as text.

    Attributes:
        function: digest of the kernel and of everything that it uses.
        signature: the specialised parameters, constants included.
        changes: what was put into the pipeline from outside: inspection hooks, text in the place of stages; and whether
            kernels may read ordinary globals.
    """

    function: str
    name: str
    signature: str
    target: str
    options: str
    changes: str
    compiler: str
    llvm: str

    @property
    def digest(self) -> str:
        """64 hexadecimal digits; the name of the entry's folder."""
        text = "".join(f"{len(part)}:{part}" for part in self)  # with lengths: no two records run together alike
        return hash_of(text.encode()).hexdigest()


def source_identity(folder: str | os.PathLike[str]) -> str:
    """64 hexadecimal digits that differ whenever a source file below `folder` differs in name, size or date."""
    return hash_of(repr(_source_facts(os.fspath(folder))).encode()).hexdigest()


@cache
def compiler_sources() -> str:
    """The identity of this package's source files, so no developer ever gets stale code.

    It identifies the code of this process. If a file was written after the package was imported, it is unknown which of
    the two versions that is, so the identity is the process's own.
    """
    return current_identity(PACKAGE, since=_BEGIN)


def current_identity(folder: str, *, since: int) -> str:
    """The `source_identity` of `folder`, or one that no other process has, if a file was written after `since`."""
    facts = _source_facts(folder)
    written = (fact for fact in facts if isinstance(fact, int) and fact > since)
    if any(date <= time.time_ns() for date in written):  # others are those of a clock that is ahead
        facts += (os.getpid(), since)
    return hash_of(repr(facts).encode()).hexdigest()


@cache
def llvm_identity() -> str:
    """Differs between installed versions of llvmlite; does not import it."""
    for folder in sys.path:  # where it usually is; asking Python's finders takes five times as long
        try:
            return _version_digest(f"{folder or '.'}/llvmlite")
        except OSError:
            continue
    with importing:
        from importlib.util import find_spec

    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return "none"
    return _version_digest(os.path.dirname(spec.origin))


def _version_digest(package: str) -> str:
    opened = os.open(f"{package}/_version.py", os.O_RDONLY | SYSTEM.open_flags)
    try:
        return hash_of(os.read(opened, 1 << 16)).hexdigest()
    finally:
        os.close(opened)


@cache
def portable_identity(folder: str | os.PathLike[str] = PACKAGE) -> str:
    """Like `source_identity`, but the same on every machine that has these sources: it reads them all, in 15 ms."""
    total = hash_of()
    walk = ((place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(".py"))
    for path in sorted(os.path.join(place, name) for place, name in walk):
        with open(path, "rb") as file:
            content = file.read()
        total.update(f"{os.path.relpath(path, folder)}:{len(content)}:".encode() + content)
    return total.hexdigest()


def _source_facts(root: str) -> list[object]:
    """Name, size and date of each source file."""
    facts: list[object] = []
    folders = [root]
    for folder in folders:  # which grows on the way
        facts.append(folder[len(root) :])
        for name, stat in SYSTEM.facts_of_files(folder, ".py"):
            if stat is not None:
                facts += (name, stat.st_size, stat.st_mtime_ns)
            elif "." not in name and name != "__pycache__":
                folders.append(f"{folder}/{name}")
    return facts
