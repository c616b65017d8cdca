"""Shadow memory: two stamps for each element that a launch may store to.

Stamps increase from launch to launch, so memory that an earlier launch used needs no clearing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.runtime.drivers.cpu.python_memory import array_address
from tilewright.runtime.extents import Extent
from tilewright.support.locks import fork_safe_lock

Plane: TypeAlias = "np.ndarray[Any, Any]"
"""One stamp for each element."""

PLANES = 2
FIRST = 2
"""The least stamp of all: more than 0, which is no stamp, and even, because bit 0 has a meaning."""
LARGEST = 2**31 - 1
KEPT_BYTES = 1 << 28
"""Max bytes of shadows that are kept after a launch."""


class Stamps(NamedTuple):
    """The stamps of one launch.

    Attributes:
        addresses: for each argument where the stamps of its lowest element are, in each plane.
    """

    base: int
    addresses: dict[int, tuple[int, ...]]


class _Pool:
    """A pool of free shadow memory, with the least stamp that is unused."""

    def __init__(self) -> None:
        self.lock = fork_safe_lock()
        self.free: list[Plane] = []
        self.next = FIRST
        self.generation = 0

    def stamps(self, count: int) -> tuple[int, int]:
        """The first of `count` new stamps, and the generation that they belong to."""
        if self.next + count > LARGEST:
            self.free, self.next, self.generation = [], FIRST, self.generation + 1
        first, self.next = self.next, self.next + count
        return first, self.generation

    def take(self, count: int) -> Plane:
        """Memory for `count` stamps, in which all are less than the next one."""
        fitting = [place for place, plane in enumerate(self.free) if plane.size >= count]
        if not fitting:
            return np.zeros(count, np.int32)
        return self.free.pop(min(fitting, key=lambda place: self.free[place].size))

    def give_back(self, planes: Sequence[Plane], generation: int) -> None:
        with self.lock:
            if generation == self.generation:
                self.free = sorted([*self.free, *planes], key=len)
            while sum(plane.nbytes for plane in self.free) > KEPT_BYTES:
                self.free.pop()


_pool = _Pool()


@contextmanager
def stamps_for(extents: dict[int, Extent], stored: Sequence[int], count: int) -> Iterator[Stamps]:
    """Shadows for the arguments that share memory with one that is `stored`."""
    if count >= LARGEST:
        raise ValueError("the grid is too large to look for races; launch it in parts")
    taken: list[Plane] = []
    addresses: dict[int, tuple[int, ...]] = {}
    with _pool.lock:  # memory that a later launch gives back has later stamps than this one
        base, generation = _pool.stamps(count)
        for region in _regions(extents):
            if any(number in stored for number in region):
                found, planes = _shadows({number: extents[number] for number in region})
                addresses |= found
                taken += planes
    try:
        yield Stamps(base, addresses)
    finally:
        _pool.give_back(taken, generation)


def _shadows(region: dict[int, Extent]) -> tuple[dict[int, tuple[int, ...]], list[Plane]]:
    """Addresses of stamps for arguments that share memory, and the memory that the stamps are in.

    Arguments whose elements do not lie on each other have planes of their own.
    """
    low, high = min(extent.low for extent in region.values()), max(extent.high for extent in region.values())
    planes: dict[tuple[int, int], list[Plane]] = {}
    addresses: dict[int, tuple[int, ...]] = {}
    for number, extent in region.items():
        place, phase = divmod(extent.low - low, extent.size)
        if (extent.size, phase) not in planes:
            planes[extent.size, phase] = [_pool.take((high - low) // extent.size + 1) for _ in range(PLANES)]
        addresses[number] = tuple(array_address(plane) + 4 * place for plane in planes[extent.size, phase])
    return addresses, [plane for group in planes.values() for plane in group]


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
