"""LLVM IR → PTX, by LLVM in a separate process: if LLVM aborts, the process ends and this one raises an error.

    start()                                                    # early: the process gets ready while others work
    ptx = emit_ptx(text, "sm_90a", "+ptx84", libraries=())

A process serves one request at a time and is kept for the next one; threads that compile at the same time get one each.
A forked child starts its own.
"""

from __future__ import annotations

import atexit
import marshal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from tilewright.backends.llvm.machine import LlvmError, named_line
from tilewright.support.system import SYSTEM, is_raised_by_handler

WORKER = str(Path(__file__).with_name("nvptx_worker.py"))
IDLE_SECONDS = 600
"""A process that has had nothing to do for so long ends: it holds some 120 MB of LLVM."""


def start() -> None:
    """Have a process ready for the next request; returns at once."""
    with _LOCK:
        if not _idle:
            _idle.append(_Worker())


def emit_ptx(text: str, cpu: str, features: str, *, libraries: Sequence[str] = ()) -> str:
    """The PTX of a module, optimised.

    Args:
        text: LLVM IR without triple and data layout.
        cpu: the device, as `sm_90a`; LLVM must know it.
        features: the version of PTX, as `+ptx84`.
        libraries: files of bitcode with functions that the module calls.

    Raises:
        LlvmError: the text is not valid, or LLVM cannot compile it.
    """
    request = (text, cpu, features, list(libraries))
    while True:
        worker = _take()
        try:
            done, answer = worker.ask(request)
        except _Gone as gone:
            if gone.was_idle:  # it ended between two requests
                continue
            raise LlvmError(_last_words(str(gone))) from None
        except BaseException:  # Ctrl-C: an answer may be under way that nobody waits for
            worker.end()
            raise
        with _LOCK:
            _idle.append(worker)
        if done:
            return str(answer)
        raise LlvmError(answer.strip(), named_line(answer, text))


class _Gone(Exception):  # noqa: N818 - not an error by itself
    """The process ended before it answered; the text is what it wrote to its standard error."""

    def __init__(self, text: str, *, was_idle: bool) -> None:
        super().__init__(text)
        self.was_idle = was_idle


class _Worker:
    """A process that runs LLVM."""

    def __init__(self) -> None:
        spec = find_spec("llvmlite")
        if spec is None or spec.origin is None:
            raise ImportError("llvmlite is not installed")
        folder = str(Path(spec.origin).parents[1])
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-I", "-S", WORKER, folder, str(IDLE_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        self._served = 0
        _all.append(self)

    def ask(self, request: tuple[Any, ...]) -> tuple[bool, str]:
        """The answer to a request.

        Raises:
            _Gone: there is none.
        """
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None, "it was started with pipes"
        assert answers is not None, "it was started with pipes"
        try:
            requests.write(marshal.dumps(request))
            requests.flush()
            answer: tuple[bool, str] = marshal.load(answers)
        except (OSError, EOFError, ValueError, TypeError) as error:
            if is_raised_by_handler(error):
                raise
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1)
            complaints, ended_well = self._said(), self._process.returncode == 0
            self.end()
            raise _Gone(complaints, was_idle=not complaints and (ended_well or self._served > 0)) from None
        self._served += 1
        return answer

    def _said(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")

    def end(self) -> None:
        """End the process."""
        self.let_go()
        self._process.kill()
        self._process.wait()

    def let_go(self) -> None:
        """Close this end of the pipes: the process ends when no other process has them open."""
        if self in _all:
            _all.remove(self)
        for file in (self._process.stdin, self._process.stdout, self._complaints):
            assert file is not None, "it was started with pipes"
            with suppress(OSError):  # what was still to be written reaches nobody
                file.close()

    def disown(self) -> None:
        """Let go of the worker in a forked child, without waiting for it: it is the parent's process."""
        self.let_go()
        self._process.returncode = 0


_LOCK = Lock()
_all: list[_Worker] = []
_idle: list[_Worker] = []


def _take() -> _Worker:
    with _LOCK:
        return _idle.pop() if _idle else _Worker()


def _forget() -> None:
    """A forked child has no workers, and its lock is free."""
    global _LOCK  # another thread of the parent may have had it
    _LOCK = Lock()
    for worker in list(_all):
        worker.disown()
    _idle.clear()


def _end_all() -> None:
    for worker in list(_all):
        worker.end()


atexit.register(_end_all)
SYSTEM.when_forked(child=_forget)


def _last_words(complaints: str) -> str:
    """The message of LLVM before it ended the process, without the addresses of its functions."""
    lines = [line for line in complaints.splitlines() if line.strip() and not line.lstrip().startswith(("#", "PLEASE"))]
    kept = [line for line in lines if "LLVM ERROR" in line or "Assertion" in line]
    kept = kept or (lines[-1:] if "Traceback" in complaints else lines[:3])
    return "\n".join(kept) or "LLVM ended without a message"
