"""A line on the terminal that counts while a kernel is tuned; nothing where there is no terminal, or no time to read.

tuning matmul_kernel: 13 of 24
"""

from __future__ import annotations

import sys
import time

_DELAY = 0.5
"""Seconds before the line appears."""


class Progress:
    """Counts what is done. Use as a context manager: the line is gone at the end."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._begin = time.monotonic()
        self._shown = ""

    def at(self, done: int) -> None:
        """Shows that `done` tasks are done, if the whole takes long."""
        if time.monotonic() - self._begin >= _DELAY and sys.stderr is not None and sys.stderr.isatty():
            self._show(f"{self._title}: {done} of {self._total}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._show(" " * len(self._shown))
            self._show("")

    def _show(self, text: str) -> None:
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()
        self._shown = text
