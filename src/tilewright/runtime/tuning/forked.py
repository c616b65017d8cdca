"""Parallel compilation of several kernels.

Compilation is Python code, and the GIL lets one thread of a process run at a time. Therefore helper processes are
forked: they compile into the disk cache, and this process finds the kernels there. Kernels that a helper did not
finish, for whatever reason, are compiled by this process when it needs them.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tilewright.support.system import SYSTEM

Task = Callable[[], object]

_INDEX = struct.Struct("<H")
_PATIENCE = 10.0
"""Seconds that helpers may go on after this process has no work left; a compilation takes less than one."""


def share_out(
    tasks: Sequence[Task], workers: int, on_start: Callable[[int], object], *, beside: Task | None = None
) -> None:
    """Run all tasks, each in one of several processes; the first in this one, before there are helpers for the others.

    So what the first task imports and sets up is there for all. `beside` keeps another CPU busy meanwhile.

    Args:
        tasks: what they change in memory is lost unless this process happened to run them; exceptions are, too.
        workers: processes, this one included.
        on_start: called before each task of this process with the number of tasks that were begun before it.
        beside: one more task, which needs little of what the others need; it gets a helper of its own at once.
    """
    reader, writer = os.pipe()
    helpers: list[int] = []
    try:
        for index in range(len(tasks)):
            os.write(writer, _INDEX.pack(index))
        os.close(writer)
        if beside is not None:
            helpers.append(_fork(partial(_attempt, beside)))
        _take(reader, tasks, on_start)
        helpers += [_fork(partial(_work, reader, tasks, _ignore)) for _ in range(min(workers, len(tasks)) - 1)]
        _work(reader, tasks, on_start)
    finally:
        os.close(reader)
        _await(helpers)


def can_fork() -> bool:
    """Whether this system has what helpers need."""
    return SYSTEM.can_fork


def _fork(work: Task) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other threads exist: a helper that waits for one of them is given up
        process = os.fork()
    if process == 0:
        try:
            _silence()
            gc.disable()  # a helper does not live long enough for it to pay
            work()
        finally:
            os._exit(0)  # nothing of this process's own ending: no exit handlers, no flushing of shared buffers
    return process


def _work(reader: int, tasks: Sequence[Task], on_start: Callable[[int], object]) -> None:
    """Take tasks until there are none."""
    while _take(reader, tasks, on_start):
        pass


def _take(reader: int, tasks: Sequence[Task], on_start: Callable[[int], object]) -> bool:
    """Take a task, by its number in the pipe, and run it; False if there is none."""
    token = os.read(reader, _INDEX.size)
    if not token:
        return False
    (index,) = _INDEX.unpack(token)
    on_start(index)
    _attempt(tasks[index])
    return True


def _attempt(task: Task) -> None:
    with suppress(Exception):  # whoever needs the result will meet the same exception, and report it
        task()


def _ignore(index: int) -> None:
    """Reports nothing: only this process has a reporter."""


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _await(helpers: Sequence[int]) -> None:
    """Wait for the helpers to end; those that do not are ended."""
    deadline = time.monotonic() + _PATIENCE
    for process in helpers:
        while not _has_ended(process):
            if time.monotonic() > deadline:
                os.kill(process, signal.SIGKILL)
            time.sleep(0.001)


def _has_ended(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:  # somebody else's handler has seen it end
        return True
