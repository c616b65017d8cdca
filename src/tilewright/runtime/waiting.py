"""Waiting for workers that may never answer.

    future = waiting.submit(executor, task)
    waiting.result(future)        its result; LostError without any answer for TILEWRIGHT_WORKER_SECONDS

A task may be queued for long, so the time since the last answer of any worker counts, not the age of one task.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NoAnswerError
from typing import Any

from tilewright.support import knobs

_STEP = 0.5
"""Seconds between two looks at the time."""


class LostError(Exception):
    """The workers of an executor do not answer."""


class _Heard:
    """The time of the latest sign of life."""

    latest = 0.0


def _hear(_: object = None) -> None:
    _Heard.latest = time.monotonic()


def submit(executor: Executor, task: Callable[..., Any], *args: Any) -> Future[Any]:
    """Hand a task over; where the executor does not take it, its future has the exception."""
    future: Future[Any]
    try:
        future = executor.submit(task, *args)
    except Exception as error:  # noqa: BLE001 - workers that are gone, an executor that was shut down: who waits sees it
        future = Future()
        future.set_exception(error)
    _hear()
    future.add_done_callback(_hear)
    return future


def result(future: Future[Any], is_elsewhere: Callable[[], bool] = lambda: True) -> Any:
    """The result of a future, or its exception.

    Args:
        is_elsewhere: whether another process has the task; threads of this one are waited for as long as they take.

    Raises:
        LostError: no worker has answered for TILEWRIGHT_WORKER_SECONDS.
    """
    patience = float(knobs.tilewright.worker_seconds)
    while True:
        try:
            found = future.result(min(_STEP, patience))
        except NoAnswerError:
            if future.done():
                raise
        else:
            return found
        if time.monotonic() - _Heard.latest > patience and is_elsewhere():
            future.cancel()
            raise LostError(f"no worker answered for {patience:g} s")


_told: set[str] = set()


def warn(reason: str, text: str) -> None:
    """Say, once per process and reason, that workers did not help."""
    if reason not in _told:
        _told.add(reason)
        warnings.warn(f"{text}; this process does the work itself", RuntimeWarning, 2)
