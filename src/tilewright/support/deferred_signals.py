"""Deferred signal handlers: for calls of libraries that an exception must not interrupt.

    with deferred_signals():
        module = llvmlite.binding.parse_assembly(text)      # Ctrl-C raises after the block

A Python signal handler runs in the main thread between two instructions of whatever Python code runs there, and most
handlers raise. llvmlite frees a string and then records that it is free: an exception in between frees it again, which
ends the process.
"""

from __future__ import annotations

import signal
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # a module of CPython, without stubs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


class _Deferral:
    """Handlers in whose place others stand, which note signals while `is_open` and are like them otherwise.

    So nothing is wrong if an exception leaves some of the others where they are.
    """

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.noted: list[int] = []
        self.is_open = False

    def handle(self, number: int, frame: FrameType | None) -> Any:
        """Handle a signal now or note it."""
        if not self.is_open:
            return self.handlers[number](number, frame)
        self.noted.append(number)
        return None

    def begin(self) -> None:
        """Note signals from now on."""
        for number in range(1, signal.NSIG):
            handler = getsignal(number)  # `signal.getsignal` tries to make an enum of each, in ten times the time
            if callable(handler):
                self.handlers[number] = handler
                signal.signal(number, self.handle)
        self.is_open = True

    def end(self) -> None:
        """Handle what was noted, and put the handlers back."""
        self.is_open = False
        try:
            for number, handler in self.handlers.items():
                signal.signal(number, handler)
        finally:
            self._handle_noted()

    def _handle_noted(self) -> None:
        if self.noted:
            try:
                signal.raise_signal(self.noted.pop(0))
            finally:  # one handler raises, and the others are called, too
                self._handle_noted()


@contextmanager
def deferred_signals() -> Iterator[None]:
    """A block in which no handler of Python runs; signals that came are handled when it is left.

    Handlers run in the main thread only, so in another one nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferral = _Deferral()
    try:
        deferral.begin()
        yield
    finally:
        deferral.end()
