"""Starts from torch's caches do not repeat what an earlier process has done, and not what no graph needs.

- torch's key of its caches reads all of torch, and Triton's all of Triton: what they say is remembered in torch's own
  folder of caches, by names, sizes and dates of the files (`remembered`).
- Inductor parses its templates of kernels where it is imported; they are parsed when they are used (`parse_later`).
- Python looks for garbage while modules are imported, which make none (`no_collections`), and often while a graph is
  captured (`capture_rarely_collected`) and compiled (`rare_collections`).
- Dynamo tokenizes whole files of a model's source for names that only its logs show (`name_for_logs`).
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilewright.support.hashing import hash_of
from tilewright.support.system import SYSTEM

COMMON = "torch._inductor.codegen.common"
"""The module of `KernelTemplate`."""
TRACER, FRAMES = "torch._dynamo.symbolic_convert", "torch._dynamo.convert_frame"
"""The modules of Dynamo that trace a frame, and that have it traced and compiled."""
COMPILED = (".py", ".so", ".pyd", ".cpp", ".ld")
"""The ends of the names of files that are parts of keys."""
RARE = 50_000
"""The number of new objects that young garbage is looked for after while a graph is compiled; Python's own is 700."""
SETTLED = 2_000_000_000
"""The age in nanoseconds from which a file's date tells that it has not been written again since."""


def remember_key(caches: Any) -> None:
    """Let the module `CACHES` have torch's key from an earlier process."""
    folder = Path(caches.torch.__file__).parent
    known = bytes.fromhex(remembered("torch", folder, lambda: str(caches.torch_key().hex())))
    with suppress(RuntimeError):  # it is known already
        caches.torch_key.set(known)


def remembered(name: str, package: Path, read: Callable[[], str]) -> str:
    """Read a package's files, or take what was read in an earlier process if no file has changed since.

    Args:
        name: of what is remembered.
        package: the folder of the package.
        read: reads the files.
    """
    facts = sorted(_facts(package))
    path = _folder() / f"{name}-{hash_of(repr(facts).encode()).hexdigest()}"
    with suppress(OSError, ValueError):
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest == hash_of(text.encode()).hexdigest():
            return text
    text = read()
    if max((date for *_, date in facts), default=0) < time.time_ns() - SETTLED:
        with suppress(OSError):
            _write(path, f"{hash_of(text.encode()).hexdigest()}\n{text}")
    return text


def _facts(folder: str | Path) -> Iterator[tuple[str, int, int, int]]:
    """Path, size and dates of each file of a package that may be a part of its key; by `scandir`, of thousands."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(COMPILED):
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
            elif entry.is_dir() and (entry.name == "_C" or Path(entry.path, "__init__.py").exists()):
                yield from _facts(entry.path)


def _folder() -> Path:
    return Path(import_module("torch._inductor.runtime.cache_dir_utils").cache_dir(), "tilewright")


def _write(path: Path, text: str) -> None:
    """Write a file that others see as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    SYSTEM.replace(partial, path)


class _Unparsed:
    """A template of Jinja that is parsed when it is rendered first."""

    def __init__(self, parse: Callable[[str], Any], source: str) -> None:
        self._parse, self._source = parse, source
        self._template: Any = None

    def render(self, *args: Any, **named: Any) -> str:
        """The text with these values."""
        if self._template is None:
            self._template = self._parse(self._source)
        return str(self._template.render(*args, **named))


def parse_later(common: Any) -> None:
    """Let the module `COMMON` parse templates when they are used, where there is Jinja."""
    template = common.KernelTemplate
    if find_spec("jinja2") is not None:
        parse = template._template_from_string

        def unparsed(source: str) -> _Unparsed:
            return _Unparsed(parse, source)

        template._template_from_string = staticmethod(unparsed)


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect no garbage within; what is made within counts as old behind it, and does not bring on a collection."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely within: a compiler's objects are mostly kept, and looked through again and again."""
    first, *others = gc.get_threshold()
    is_rare = not 0 < first < RARE
    if not is_rare:
        gc.set_threshold(RARE, *others)
    try:
        yield
    finally:
        if not is_rare and gc.get_threshold()[0] == RARE:
            gc.set_threshold(first, *others)


def capture_rarely_collected(frames: Any) -> None:
    """Let the module `FRAMES` collect garbage rarely while it captures a graph."""
    frames._compile = rare_collections()(frames._compile)


def name_for_logs(tracer: Any) -> None:
    """Let the module `TRACER` look for the name of the function around a line only if a log shows it."""
    find = tracer.get_funcname
    logs = (tracer.trace_call_log, tracer.trace_source_log)

    def get_funcname(path: str, line: int) -> str | None:
        return find(path, line) if any(log.isEnabledFor(logging.DEBUG) for log in logs) else None

    tracer.get_funcname = get_funcname
