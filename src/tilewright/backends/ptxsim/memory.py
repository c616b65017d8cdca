"""Device memory: one heap with wide gaps between allocations, and a map of the permitted accesses of each byte.

memory = DeviceMemory()
address = memory.copy_in(np.arange(8, dtype=np.float32), name="x")
memory.copy_out(address, (8,), np.float32)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.ptxsim.value_types import Array
from tilewright.support.system import SYSTEM

BASE = 0x10_0000_0000
"""The address of the heap's first byte."""
GAP = 1 << 18
"""Bytes between allocations that belong to none: a kernel that misses one does not hit the next."""
VALID, INITIALISED, WRITTEN, WRITABLE, SETTLED, COMBINED = 1, 2, 4, 8, 16, 32
"""The map's bits for a byte.

It belongs to an allocation, has a value, was stored by a kernel, may be stored to; no copy of this launch may still
write it; the last such copy combined with what stood there.
"""
WAIT_FOR_WRITES = "let its thread wait by cp.async.bulk.wait_group without .read (tma.store_wait(…, read_only=False))"
"""Advice in messages about bytes that a bulk copy still writes."""
NO_MEMORY = "where the simulated device has no memory"
"""The end of messages about addresses outside of the heap."""


@dataclass(frozen=True)
class Allocation:
    """A piece of the heap: `name` is for messages."""

    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Fault:
    """An access that may not be: what is wrong, and which of the addresses."""

    kind: str
    text: str
    index: int


def reserve(size: int) -> Array:
    """`size` zero bytes that cost memory only where they are touched."""
    return np.frombuffer(SYSTEM.reserve(size), np.uint8)


class DeviceMemory:
    """The global memory of a device.

    Args:
        capacity: bytes of address space, gaps included.

    Attributes:
        views: the bytes as unsigned numbers, by their width.
        state: the map, as unsigned numbers by their width.
    """

    def __init__(self, capacity: int = 1 << 32) -> None:
        data, state = reserve(capacity), reserve(capacity)
        self.views: dict[int, Array] = {width: data.view(f"u{width}") for width in (1, 2, 4, 8)}
        self.state: dict[int, Array] = {width: state.view(f"u{width}") for width in (1, 2, 4, 8)}
        self.capacity, self._top = capacity, GAP
        self._allocations: list[Allocation] = []
        self._unsettled: list[Array] = []
        self._foreign: list[tuple[int, int, int]] = []

    @property
    def used(self) -> int:
        """Bytes of the heap up to the end of the last allocation."""
        return self._top

    def allocate(self, size: int, *, name: str = "", align: int = 256, phase: int = 0) -> int:
        """The address of `size` new bytes without values; it is `phase` modulo `align`.

        Raises:
            MemoryError: the heap is full.
        """
        start = -(-self._top // align) * align + phase
        self._top = start + size + GAP
        if self._top > self.capacity:
            raise MemoryError(f"the simulated device has no {size} bytes left")
        self._allocations.append(Allocation(name, start, size))
        self.state[1][start : start + size] = VALID | WRITABLE | SETTLED
        return BASE + start

    def also_at(self, address: int, foreign: int, size: int) -> None:
        """Give `size` bytes from `address` on further addresses, from `foreign` on, outside of the heap."""
        self._foreign.append((foreign, foreign + size, address - foreign))

    def offsets(self, addresses: Array) -> Array:
        """The places in the heap that global addresses name."""
        found: Array = addresses - BASE
        if not found.size or (found.min() >= 0 and found.max() < self.capacity):
            return found
        moved = found.copy()
        for low, high, distance in self._foreign:
            moved[(addresses >= low) & (addresses < high)] += distance
        return moved

    def copy_in(self, array: Any, *, name: str = "", writable: bool = True) -> int:
        """The address of a copy of `array`, elements in order of their indices."""
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        address = self.allocate(content.size, name=name)
        self.fill(address, content, writable=writable)
        return address

    def fill(self, address: int, content: Any, *, writable: bool = True) -> None:
        """Give bytes from `address` on their values, as the host does it."""
        raw = np.frombuffer(content, np.uint8)
        start = address - BASE
        self.views[1][start : start + raw.size] = raw
        self.state[1][start : start + raw.size] = VALID | INITIALISED | SETTLED | (WRITABLE if writable else 0)

    def copy_out(self, address: int, shape: Any, dtype: Any) -> Array:
        """The content at `address`, as an array of its own."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.bytes_at(address, size).copy().view(dtype).reshape(shape)

    def bytes_at(self, address: int, size: int) -> Array:
        """The memory itself, to read and to write."""
        start = address - BASE
        return self.views[1][start : start + size]

    def was_written(self, address: int, size: int) -> Array:
        """The mask of the bytes that a kernel stored."""
        start = address - BASE
        return (self.state[1][start : start + size] & WRITTEN) != 0

    def free(self, address: int) -> None:
        """Make the bytes of an allocation invalid; its addresses are not used again."""
        found = self.allocation_near(address - BASE)
        assert found is not None, "only what was allocated is freed"
        self.state[1][found.start : found.start + found.size] = 0

    def unsettle(self, offsets: Array, *, combined: bool) -> None:
        """A copy of this launch writes the bytes at `offsets` of the heap from now on; or it combines with them."""
        kept = self.state[1][offsets] & (0xFF - SETTLED - COMBINED)
        self.state[1][offsets] = kept | (COMBINED if combined else 0)
        self._unsettled.append(offsets)

    def settle(self, offsets: Array) -> None:
        """Copies have written the bytes at `offsets` of the heap."""
        self.state[1][offsets] |= SETTLED

    @contextmanager
    def launch(self) -> Iterator[None]:
        """A launch, at whose end all copies have written."""
        try:
            yield
        finally:
            for offsets in self._unsettled:
                self.settle(offsets)
            self._unsettled.clear()

    def fault(self, offsets: Array, width: int, what: str, *, needs: int, settled: bool = True) -> Fault | None:
        """The fault, if any, of accesses to the heap.

        Args:
            offsets: where they begin.
            width: their bytes.
            what: the access, in words for messages.
            needs: the bits that each byte needs.
            settled: whether no copy may still write there.
        """
        if not offsets.size:
            return None
        if width > 1 and (offsets & (width - 1)).any():
            index = int(np.flatnonzero(offsets & (width - 1))[0])
            return Fault("misaligned address", f"{what} of {width} bytes at {BASE + int(offsets[index]):#x}", index)
        low, high = int(offsets.min()), int(offsets.max())
        if low < 0 or high + width > self.capacity:
            index = int(np.flatnonzero((offsets < 0) | (offsets + width > self.capacity))[0])
            return Fault("out of bounds", self._outside(int(offsets[index]), width, what), index)
        wrong = self._wrong(offsets, width, needs | SETTLED if settled else needs)
        return None if wrong is None else self._explain(offsets, width, what, wrong)

    def _wrong(self, offsets: Array, width: int, needs: int) -> Array | None:
        unit = min(width, 8)
        pattern = np.array(int.from_bytes(bytes([needs]) * unit, "little"), f"u{unit}")
        units = offsets >> (unit.bit_length() - 1)
        state = self.state[unit][units]
        for more in range(1, width // unit):
            state = state & self.state[unit][units + more]
        wrong = (state & pattern) != pattern
        return wrong if wrong.any() else None

    def _explain(self, offsets: Array, width: int, what: str, wrong: Array) -> Fault:
        index = int(np.flatnonzero(wrong)[0])
        start = int(offsets[index])
        state = self.state[1][start : start + width]
        if not (state & VALID).all():
            return Fault("out of bounds", self._outside(start, width, what), index)
        place = self._place(start, width)
        if not (state & SETTLED).all():
            text = f"{what} of {width} bytes {place}, which a bulk copy still writes; {WAIT_FOR_WRITES}"
            return Fault("race", text, index)
        if what == "load" and not (state & INITIALISED).all():
            return Fault("uninitialised memory", f"{what} of {width} bytes {place}, which nothing has stored", index)
        return Fault("read-only memory", f"{what} of {width} bytes {place}", index)

    def _place(self, start: int, width: int) -> str:
        found = self.allocation_near(start)
        if not 0 <= start < self.capacity:
            return f"at {BASE + start:#x}, {NO_MEMORY}"
        if found is None:
            return f"at {BASE + start:#x}"
        name = f"`{found.name}`" if found.name else f"the allocation of {found.size} bytes at {BASE + found.start:#x}"
        if start + width <= found.start + found.size and start >= found.start:
            return f"at byte {start - found.start} of {name}"
        if start < found.start:
            return f"at {BASE + start:#x}, {found.start - start} bytes before {name}"
        return f"at {BASE + start:#x}, byte {start - found.start} of {name}, which has {found.size} bytes"

    def _outside(self, start: int, width: int, what: str) -> str:
        return f"{what} of {width} bytes {self._place(start, width)}"

    def allocation_near(self, start: int) -> Allocation | None:
        """The allocation that holds byte `start` of the heap, or the nearest one."""
        index = bisect_right([a.start for a in self._allocations], start)
        near = self._allocations[max(0, index - 1) : index + 1]
        return min(near, key=lambda a: max(a.start - start, start - a.start - a.size, 0), default=None)
