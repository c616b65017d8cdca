"""Machine code that LLVM has made is kept, in this process and from one run to the next: an eighth of the tests' time.

Caches of kernels do not help: many tests begin with an empty one, and others have the same kernel in other files. Of
all texts that tests compile a third comes again in the same run, and nearly all in the next one.

What is kept is LLVM's answer to a text, a processor and options; passes and writers run as ever. The version of
llvmlite and the files that ask LLVM belong to the question. `pytest --cache-clear` forgets all answers, with
`-p no:cacheprovider` (as for mutants) nothing is read or kept outside of the process, and what no run of a fortnight
has asked for goes.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from tilewright.backends.llvm import machine

DAYS = 14
"""The days after which an answer goes that nobody has asked for."""


def begin(config: pytest.Config) -> None:
    """Have LLVM compile each text for each machine once from now on."""
    folder = _folder(config)
    if folder is not None and not hasattr(config, "workerinput"):
        forget_old(folder)
    machine._object_code = remembering(machine._object_code, folder, _compiler())


def _folder(config: pytest.Config) -> Path | None:
    """Where answers are kept, if anywhere: not with `-p no:cacheprovider`, nor where nobody may write."""
    cache = getattr(config, "cache", None)
    try:
        return None if cache is None else Path(cache.mkdir("llvm"))
    except OSError:
        return None


def _compiler() -> bytes:
    """The versions that an answer depends on: LLVM's, and the text of the files that ask it."""
    here = Path(machine.__file__).parent
    texts = (file.read_bytes() for file in (here / "machine.py", here / "host_cpu.py"))
    return b"\0".join([version("llvmlite").encode(), *texts])


def remembering(
    compiled: Callable[..., bytes], folder: Path | None = None, compiler: bytes = b""
) -> Callable[..., bytes]:
    """`compiled`, asked once for the same arguments.

    Args:
        compiled: makes machine code.
        folder: where answers are kept for other processes, if anywhere.
        compiler: says who answers.
    """
    made: dict[str, bytes] = {}
    asked = hashlib.sha256(compiler)

    def remembered(*facts: object, **options: object) -> bytes:
        question = asked.copy()
        question.update(repr((facts, options)).encode())
        key = question.hexdigest()
        if key not in made:
            answer = partial(compiled, *facts, **options)
            made[key] = answer() if folder is None else kept(folder / key, answer)
        return made[key]

    return remembered


def kept(file: Path, answer: Callable[[], bytes]) -> bytes:
    """The content of a file, which gets the answer where it is not there; other processes see all of it or nothing."""
    try:
        code = file.read_bytes()
        os.utime(file)
    except FileNotFoundError:
        code = answer()
        part = file.with_name(f"{file.name}.{os.getpid()}")
        with suppress(OSError):  # the disk is full, or somebody clears the cache
            part.write_bytes(code)
            part.replace(file)
    return code


def forget_old(folder: Path) -> None:
    """Remove what nobody has asked for in a while."""
    oldest = time.time() - DAYS * 86400
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # another run does the same
            if file.stat().st_mtime < oldest:
                file.unlink()
