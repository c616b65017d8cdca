"""The name of a compiled kernel in the disk cache: one frozen record with all inputs, and its digest.

Nothing that cannot change the code enters: launch-only options and settings do not.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1]


class CacheKey(NamedTuple):
    """Everything that the compiled code depends on, as text.

    Attributes:
        function: digest of the kernel and of everything that it uses.
        name: the kernel's symbol.
        signature: the specialised parameters, constants included.
        target: identity of the machine.
        options: identity of the compile options.
        compiler: identity of Tilewright itself.
        llvm: identity of the installed LLVM.
    """

    function: str
    name: str
    signature: str
    target: str
    options: str
    compiler: str
    llvm: str

    @property
    def digest(self) -> str:
        """64 hexadecimal digits; the name of the entry's folder."""
        text = "".join(f"{len(part)}:{part}" for part in self)  # with lengths: no two records run together alike
        return hashlib.sha256(text.encode()).hexdigest()


@cache
def compiler_identity() -> str:
    """Differs whenever a source file of this package does: no developer ever gets stale code."""
    return source_identity(PACKAGE)


def source_identity(folder: Path) -> str:
    """64 hexadecimal digits that differ whenever a source file below `folder` differs in size or date."""
    return hashlib.sha256(repr(sorted(_source_stats(folder))).encode()).hexdigest()


@cache
def llvm_identity() -> str:
    """Differs between installed versions of llvmlite; does not import it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return "none"
    stat = Path(spec.origin).with_name("_version.py").stat()
    return f"{stat.st_size}.{stat.st_mtime_ns}"


def _source_stats(folder: Path) -> Iterator[tuple[str, int, int]]:
    folders = [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    yield entry.path, stat.st_size, stat.st_mtime_ns
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
