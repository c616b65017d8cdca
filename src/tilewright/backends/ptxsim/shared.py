"""Shared memory of a batch of CTAs, with a shadow that finds races and reads of uninitialised bytes.

Addresses count from the start of a CTA's own memory. Cluster addresses, which `mapa` returns and which variables have
in clusters of several CTAs, have `NAMED` set and the rank of the CTA above bit `WINDOW_BITS`: as on hardware, kernels
may clear or flip bits of the rank to address another CTA. A plain address is in the CTA's own memory. `locate` turns
both into indices of `data`.

The checks are in `shadow.py`; this file has the forms of its methods for lists of single bytes.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from tilewright.backends.ptxsim.memory import Fault
from tilewright.backends.ptxsim.shadow import Clocks, Shadow
from tilewright.backends.ptxsim.value_types import Array

WINDOW_BITS = 24
"""The lowest bit of an address of shared::cluster that counts the rank of the CTA; lower bits count bytes."""
OFFSET = (1 << WINDOW_BITS) - 1
"""The bits of an address that count bytes."""
RANK = 15
"""The largest rank of a CTA in a cluster."""
NAMED = 1 << 28
"""The bit that an address has where it names a CTA."""
ALIGNMENT = 1024
"""The alignment of every CTA's memory, in bytes, as the swizzles of tensor copies want it."""
NAN_BYTE = 0xFF
"""The byte that numbers of every float format consist of where they are a NaN; integers of such bytes are -1."""
Uninitialized: TypeAlias = Literal["report", "nan"]
"""The treatment of reads of uninitialised memory: as an error, or as a NaN."""


class SharedMemory:
    """The shared memory of all CTAs of a batch.

    Args:
        size: bytes that a CTA has.
        unit: bytes that the narrowest access has, at most eight.
        cluster: CTAs per cluster; the CTAs of one stand side by side.
        clocks: the knowledge of warps about each other.
        checks: watch for races; the other checks are always on.
        uninitialized: how to treat reads of uninitialised memory.

    Attributes:
        data: all bytes; a CTA's begin at `base(cta)`.
        views: the same as unsigned numbers, by their width.
        unit: bytes per unit of the shadow.
        shadow: who stored and read what.
    """

    def __init__(
        self,
        ctas: int,
        size: int,
        *,
        unit: int,
        cluster: int,
        clocks: Clocks,
        checks: bool,
        uninitialized: Uninitialized,
    ) -> None:
        self.size, self.unit, self.cluster, self.uninitialized = size, unit, cluster, uninitialized
        self.stride = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        total = ctas * self.stride
        self.data = np.full(total, NAN_BYTE, np.uint8)
        self._coming = np.zeros(total, np.uint8)
        self.views: dict[int, Array] = {width: self.data.view(f"u{width}") for width in (1, 2, 4, 8)}
        self._shift = unit.bit_length() - 1
        units = self.stride >> self._shift
        self.shadow = Shadow(ctas * units, cluster * units, clocks=clocks, checks=checks)
        if uninitialized == "nan":
            self.shadow.initialised[:] = True

    def base(self, cta: Any) -> Any:
        """The index in `data` where the memory of a CTA (or of each of an array of CTAs) begins."""
        return cta * self.stride

    def locate(self, addresses: Array, ctas: Array, width: int, what: str) -> Array | Fault:
        """Indices of `data` for shared addresses as seen from `ctas`, or what is wrong with them."""
        offsets = addresses
        owners = ctas
        if (addresses >> WINDOW_BITS).any():
            offsets, owners = addresses & OFFSET, self.owners(addresses, ctas)
            if (owners < 0).any():
                index = int((owners < 0).argmax())
                text = f"{what} of {width} bytes at shared address {int(addresses[index]):#x}, outside of every CTA"
                return Fault("out of bounds", text, index)
        if width > 1 and (offsets & (width - 1)).any():
            index = int(np.flatnonzero(offsets & (width - 1))[0])
            text = f"{what} of {width} bytes at shared address {int(offsets[index]):#x}"
            return Fault("misaligned address", text, index)
        if offsets.size and int(offsets.max()) + width > self.size:
            index = int(offsets.argmax())
            text = f"{what} of {width} bytes at shared address {int(offsets[index]):#x}; the CTA has {self.size} bytes"
            return Fault("out of bounds", text, index)
        return np.asarray(offsets + owners * self.stride)

    def owners(self, addresses: Any, ctas: Any) -> Any:
        """The CTAs whose memory addresses are in, as seen from `ctas`; -1 where there is none."""
        ranks = addresses >> WINDOW_BITS & RANK
        wrong = (addresses < 0) | (addresses >= 2 * NAMED) | (ranks >= self.cluster)
        named = addresses & NAMED != 0
        found = np.where(named, ctas // self.cluster * self.cluster + ranks, ctas)
        return np.where(wrong | (np.logical_not(named) & (ranks > 0)), -1, found)

    def address(self, offsets: Any, cta: Any) -> Any:
        """Addresses of the same bytes in the memory of a CTA, by its number in the batch."""
        return offsets & OFFSET | cta % self.cluster << WINDOW_BITS | NAMED

    def in_units(self, width: int) -> int:
        """The bytes of all units that have some of `width` bytes."""
        return -(-width >> self._shift) << self._shift

    def access(self, what: str, index: Array, warps: Array, width: int, *same: Array) -> Fault | None:
        """Check and note accesses of `width` bytes each; the fault's index is a place in `index`.

        Args:
            what: `read`, `look`, `write` or `atomic`.
            index: of the first bytes.
            warps: the warp that does it, per index.
            width: a multiple of the unit.
            same: as for `Shadow.write`.
        """
        count = width >> self._shift
        units = index >> self._shift
        if count > 1:
            units = (units[:, None] + np.arange(count)).ravel()
            warps, same = np.repeat(warps, count), tuple(np.repeat(mask, count) for mask in same)
        fault: Fault | None = getattr(self.shadow, what)(units, warps, *same)
        return None if fault is None else Fault(fault.kind, fault.text, fault.index // count)

    # What follows takes indices of single bytes, and per byte the warp (of the batch) that touches it. Only whether
    # something is wrong matters of what they return, and its text.

    def _units(self, index: Array) -> tuple[Array, Array]:
        """The units of bytes, and which of the bytes begin another one."""
        units = index >> self._shift
        begins = np.ones(len(units), bool)
        np.not_equal(units[1:], units[:-1], out=begins[1:])
        return units[begins], begins

    def read(self, index: Array, warps: Array) -> Fault | None:
        units, begins = self._units(index)
        return self.shadow.read(units, warps[begins])

    def look(self, index: Array, warps: Array) -> Fault | None:
        units, begins = self._units(index)
        return self.shadow.look(units, warps[begins])

    def write(self, index: Array, warps: Array) -> Fault | None:
        units, begins = self._units(index)
        return self.shadow.write(units, warps[begins])

    def note_read(self, index: Array, warps: Array) -> None:
        units, begins = self._units(index)
        self.shadow.note_read(units, warps[begins])

    def note_write(self, index: Array, warps: Array, time: int | None = None) -> None:
        units, begins = self._units(index)
        self.shadow.note_write(units, warps[begins], time)

    def engine_read(self, index: Array, warps: Array) -> Fault | None:
        return self.shadow.engine_read(self._units(index)[0], warps)

    def note_read_by_all(self, index: Array, warps: Array, time: int | None = None) -> None:
        self.shadow.note_read_by_all(self._units(index)[0], warps, time)

    def engine_write(self, index: Array, content: Array, warps: Array) -> Fault | None:
        units, begins = self._units(index)
        coming = self.shadow.pending[units] > 0
        if coming.any():
            coming &= np.logical_and.reduceat(self._coming[index] == content, np.flatnonzero(begins))
        return self.shadow.write(units, warps[begins], coming=coming)

    def hold_for_write(self, index: Array, content: Array) -> None:
        self._coming[index] = content
        self.shadow.hold_for_write(self._units(index)[0])

    def end_write(self, index: Array) -> None:
        self.shadow.end_write(self._units(index)[0])

    def hold_for_read(self, index: Array) -> None:
        self.shadow.hold_for_read(self._units(index)[0])

    def end_read(self, index: Array) -> None:
        self.shadow.end_read(self._units(index)[0])

    def forget(self, index: Array) -> None:
        self.data[index] = NAN_BYTE
        if self.uninitialized == "report":
            self.shadow.forget(self._units(index)[0])

    def engine_wrote(self, index: Array) -> None:
        self.shadow.engine_wrote(self._units(index)[0])

    def fence(self, warps: Array) -> None:
        self.shadow.fence(warps)
