"""This machine's processes as an executor of compilations: as many as CPUs that may be used."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from tilewright.runtime.tuning.forked import can_fork
from tilewright.support import knobs
from tilewright.support.system import SYSTEM


class LocalProcesses(ProcessPoolExecutor):
    """Processes that are forked where that is possible, so that none imports the compiler again."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other threads exist: a worker that waits for one of them is given up
            return super().submit(fn, *args, **kwargs)


def local_processes() -> LocalProcesses:
    """An executor of TILEWRIGHT_COMPILE_WORKERS processes, or of as many as CPUs that may be used."""
    context = get_context("fork" if can_fork() else "spawn")
    return LocalProcesses(knobs.tilewright.compile_workers or SYSTEM.usable_cpus(), mp_context=context)
