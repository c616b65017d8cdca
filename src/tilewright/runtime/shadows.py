"""Shadow memory: two stamps for each element that a launch may store to.

Stamps only grow from launch to launch, so memory that an earlier launch used needs no clearing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tilewright.runtime.extents import Extent

PLANES = 2
FIRST = 2
"""The least stamp of all: more than 0, which is no stamp, and even, because bit 0 has a meaning."""
LARGEST = 2**31 - 1
KEPT_BYTES = 1 << 28
"""Shadows beyond that are given back after a launch."""


class Stamps(NamedTuple):
    """The stamps of one launch.

    Attributes:
        base: the least of them.
        addresses: for each argument where the stamps of its lowest element are, in each plane.
    """

    base: int
    addresses: dict[int, tuple[int, ...]]


class _Pool:
    """Memory that is free, and the least stamp that nobody used."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.free: list[np.ndarray[Any, Any]] = []
        self.next = FIRST
        self.generation = 0

    def stamps(self, count: int) -> tuple[int, int]:
        """The first of `count` new stamps, and the generation that they belong to."""
        with self.lock:
            if self.next + count > LARGEST:
                self.free, self.next, self.generation = [], FIRST, self.generation + 1
            first, self.next = self.next, self.next + count
            return first, self.generation

    def take(self, count: int) -> np.ndarray[Any, Any]:
        """Memory for so many stamps."""
        with self.lock:
            fitting = [array for array in self.free if array.size >= count]
            if fitting:
                best = min(fitting, key=len)
                self.free = [array for array in self.free if array is not best]
                return best
        return np.zeros(count, np.int32)

    def give_back(self, arrays: Sequence[np.ndarray[Any, Any]], generation: int) -> None:
        with self.lock:
            if generation != self.generation:
                return
            self.free += arrays
            while sum(array.nbytes for array in self.free) > KEPT_BYTES:
                self.free.remove(max(self.free, key=len))


_pool = _Pool()


@contextmanager
def stamps_for(extents: dict[int, Extent], stored: Sequence[int], count: int) -> Iterator[Stamps]:
    """Shadows for the arguments that share memory with one that is `stored`.

    Args:
        extents: of the arguments, by number.
        stored: the numbers of those that the kernel may store to.
        count: how many stamps the launch needs.

    Raises:
        ValueError: the grid is too large.
    """
    if count >= LARGEST:
        raise ValueError("the grid is too large to look for races; launch it in parts")
    base, generation = _pool.stamps(count)
    taken: list[np.ndarray[Any, Any]] = []
    addresses: dict[int, tuple[int, ...]] = {}
    for region in _regions(extents):
        if any(number in stored for number in region):
            low = min(extents[number].low for number in region)
            high = max(extents[number].high for number in region)
            planes: dict[tuple[int, int], list[np.ndarray[Any, Any]]] = {}
            for number in region:
                size = extents[number].size
                place, phase = divmod(extents[number].low - low, size)
                if (size, phase) not in planes:
                    planes[size, phase] = [_pool.take((high - low) // size + 1) for _ in range(PLANES)]
                    taken += planes[size, phase]
                addresses[number] = tuple(int(plane.ctypes.data) + 4 * place for plane in planes[size, phase])
    try:
        yield Stamps(base, addresses)
    finally:
        _pool.give_back(taken, generation)


def _regions(extents: dict[int, Extent]) -> list[list[int]]:
    """The arguments, in groups that share memory."""
    groups: list[list[int]] = []
    end = 0
    for number in sorted(extents, key=lambda n: extents[n].low):
        extent = extents[number]
        if extent.low == extent.high:
            continue
        if groups and extent.low < end:
            groups[-1].append(number)
        else:
            groups.append([number])
        end = max(end, extent.high)
    return groups
