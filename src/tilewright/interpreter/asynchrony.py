"""Asynchronous work of a program: copies into shared memory, and readers of it.

copies.start(write); copies.commit(); copies.wait(0)          `write` is called by `wait`
readers.start(a); a[0] = 1; readers.wait(0)                   RaceError: `a` was still being read
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tilewright.interpreter.memory import Array
from tilewright.ir.attributes import place_of
from tilewright.ir.core import Op
from tilewright.support.diagnostics import TilewrightError

Write: TypeAlias = "Callable[[], None]"


class RaceError(TilewrightError, RuntimeError):
    """A program wrote to memory that an asynchronous op was still reading, or waits for a phase that never ends."""


class Products:
    """Readers of shared memory, oldest first: each with the arrays it reads and what was in them."""

    def __init__(self) -> None:
        self._running: list[list[tuple[Array, Array]]] = []

    def start(self, *sources: Array) -> None:
        """Add a reader of `sources`, which reads until the program has waited for it."""
        self._running.append([(source, source.copy()) for source in sources])

    def wait(self, left: int) -> None:
        """Wait for all but the `left` youngest readers.

        Raises:
            RaceError: memory that one of them reads has changed.
        """
        count = max(0, len(self._running) - left)
        done, self._running = self._running[:count], self._running[count:]
        if any(source.tobytes() != before.tobytes() for sources in done for source, before in sources):
            raise RaceError("shared memory was changed while something that had not been waited for was reading it")


class Barrier:
    """A barrier in shared memory.

    Attributes:
        phase: the parity of the phase that is not complete.
        count: how many arrivals complete a phase.
        arrivals: those of this phase.
        expected: the bytes that must come in this phase.
        loads: what comes: bytes, and the write of them.
    """

    def __init__(self, count: int) -> None:
        self.phase, self.count = 0, count
        self.arrivals = self.expected = 0
        self.loads: list[tuple[int, Write]] = []

    def is_complete(self) -> bool:
        """Whether nothing is missing in this phase once all loads have come."""
        return self.arrivals >= self.count and sum(size for size, _ in self.loads) == self.expected

    def advance(self) -> None:
        """The loads of this phase write what they bring, and the next phase begins."""
        for _, write in self.loads:
            write()
        self.phase ^= 1
        self.arrivals = self.expected = 0
        self.loads = []


class Copies:
    """Copies into shared memory that have not arrived.

    Attributes:
        tensormaps: descriptors in memory, by address: base, extents, strides, whether what lies outside is NaN.
    """

    def __init__(self) -> None:
        self.tensormaps: dict[int, tuple[int, tuple[int, ...], tuple[int, ...], bool]] = {}
        self._open: list[Write] = []
        self._groups: list[list[Write]] = []
        self._barriers: dict[int, Barrier] = {}

    def start(self, write: Write) -> None:
        """Add one more copy to the group that is open; `write` is called when it has arrived."""
        self._open.append(write)

    def commit(self) -> None:
        """Close the group."""
        self._groups.append(self._open)
        self._open = []

    def wait(self, left: int) -> None:
        """Wait for all groups but the `left` youngest: their copies write now."""
        count = max(0, len(self._groups) - left)
        for group in self._groups[:count]:
            for write in group:
                write()
        self._groups = self._groups[count:]

    # Barriers

    def initialize(self, barrier: Array, count: int) -> None:
        """Make a barrier, of which `count` arrivals complete a phase."""
        self._barriers[_address(barrier)] = Barrier(count)

    def invalidate(self, barrier: Array) -> None:
        """Forget a barrier: its memory may be used otherwise."""
        self._barriers.pop(_address(barrier), None)

    def expect(self, barrier: Array, size: int) -> None:
        """Arrive once, and let this phase wait for `size` more bytes."""
        found = self._barrier(barrier)
        found.expected += size
        found.arrivals += 1

    def arrive(self, barrier: Array, count: int = 1) -> None:
        """Arrive `count` times."""
        self._barrier(barrier).arrivals += count

    def load(self, barrier: Array, size: int, write: Write) -> None:
        """Add a copy of `size` bytes, which the barrier counts; `write` is called when the phase is complete."""
        self._barrier(barrier).loads.append((size, write))

    def wait_barrier(self, barrier: Array, phase: int, op: Op) -> None:
        """Wait until the phase of parity `phase` is complete.

        Raises:
            RaceError: it never will be.
        """
        found = self._barrier(barrier)
        if found.phase != phase & 1:
            return
        if not found.is_complete():
            brought = sum(size for size, _ in found.loads)
            raise RaceError(
                f"{op.name} waits forever: {found.arrivals} of {found.count} arrivals, {brought} of {found.expected} "
                f"bytes{place_of(op.location)}"
            )
        found.advance()

    def _barrier(self, barrier: Array) -> Barrier:
        found = self._barriers.get(_address(barrier))
        if found is None:
            raise RaceError("a barrier is used before it is initialized")
        return found


def _address(view: Any) -> int:
    return int(np.asarray(view).ctypes.data)
