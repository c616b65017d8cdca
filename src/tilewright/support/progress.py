"""Progress bars with the time left, on terminals and in notebooks only.

    with Progress("trying matmul", len(configs)) as progress:
        for done, config in enumerate(configs):
            progress.at(done)

    trying matmul: 13 of 24 ##########.........  0:05 left

If tqdm is installed, it draws the bar; this is the only file that imports it. A bar appears after half a second and
disappears at the end. For nested work, such as a tuned kernel in a report, only the outer bar is shown.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from importlib.util import find_spec
from typing import Any, ClassVar, Protocol, TextIO

from tilewright.support import knobs

DELAY = 0.5
"""Seconds before the bar appears."""
_INTERVAL = 0.1
"""Seconds between two pictures of it."""
_WIDTH = 20


class Progress:
    """Counts what is done of `total` tasks. Use as a context manager: the bar is gone at the end.

    Args:
        title: what is done, for people.
        total: the number of tasks.
    """

    _outermost: ClassVar[tuple[int, Progress] | None] = None
    """The bar that may draw, and its process: a child of a fork draws nothing."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total = title, total
        self._begin = time.monotonic()
        self._bar: Bar | None = None

    def at(self, done: int) -> None:
        """Show that `done` tasks are done, if the whole takes long and bars are visible."""
        elapsed = time.monotonic() - self._begin
        if elapsed < DELAY or Progress._outermost != (os.getpid(), self):
            return
        if self._bar is None:
            stream = _watched()
            if stream is None:
                return
            self._bar = (Line if find_spec("tqdm") is None else OfTqdm)(stream, self._title, self._total, elapsed)
        self._bar.show(done)

    def write(self, text: str) -> None:
        """Print a line to stdout; the bar moves out of its way."""
        if self._bar is not None:
            self._bar.hide()
        print(text, flush=True)  # noqa: T201 - what the caller asked for

    def __enter__(self) -> Progress:
        if Progress._outermost is None:
            Progress._outermost = (os.getpid(), self)
        return self

    def __exit__(self, *_: object) -> None:
        if Progress._outermost == (os.getpid(), self):
            Progress._outermost = None
        if self._bar is not None:
            self._bar.hide()
            self._bar.close()
            self._bar = None


class Bar(Protocol):
    """A bar of one kind."""

    def show(self, done: int) -> None:
        """Draw."""

    def hide(self) -> None:
        """Erase the bar, until it is drawn again."""

    def close(self) -> None:
        """Erase the bar for good."""


class Line:
    """One line of text, written over and over."""

    def __init__(self, stream: TextIO, title: str, total: int, elapsed: float) -> None:
        self._stream, self._title, self._total = stream, title, total
        self._begin = time.monotonic() - elapsed
        self._last, self._length = 0.0, 0

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now - self._last < _INTERVAL:
            return
        self._last = now
        share = min(done / max(self._total, 1), 1.0)
        filled = round(share * _WIDTH)
        left = f"  {clock((now - self._begin) * (1 - share) / share)} left" if done else ""
        self._write(f"{self._title}: {done} of {self._total} {'#' * filled}{'.' * (_WIDTH - filled)}{left}")

    def hide(self) -> None:
        if self._length:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()
            self._last = 0.0

    def close(self) -> None:
        """Do nothing: a hidden line leaves nothing to erase."""

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text.ljust(self._length)}")
        self._stream.flush()
        self._length = len(text)


class OfTqdm:
    """A bar of tqdm, with widgets in notebooks that have them."""

    def __init__(self, stream: TextIO, title: str, total: int, elapsed: float) -> None:
        widgets = _is_notebook(stream) and find_spec("ipywidgets") is not None
        kind = importlib.import_module("tqdm.notebook" if widgets else "tqdm.std").tqdm
        quiet = type("Bar", (kind,), {"monitor_interval": 0})  # a thread would watch it, and helpers are forked
        self._bar: Any = quiet(total=total, desc=title, leave=False, file=stream)
        self._bar.start_t -= elapsed

    def show(self, done: int) -> None:
        self._bar.update(done - self._bar.n)

    def hide(self) -> None:
        self._bar.clear()

    def close(self) -> None:
        self._bar.close()


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are some: `0:05`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _watched() -> TextIO | None:
    """The stream on which bars are visible: stderr of terminals and notebooks, or what the knob says."""
    stream = sys.stderr
    wanted = knobs.tilewright.progress
    if stream is None or wanted is False or (wanted is None and _is_worker()):
        return None
    return stream if wanted or stream.isatty() or _is_notebook(stream) else None


def _is_worker() -> bool:
    """Whether this process works for another one, which shows how far all have come."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def _is_notebook(stream: TextIO) -> bool:
    """Whether what is written there appears under a cell."""
    return type(stream).__module__.startswith("ipykernel.")
