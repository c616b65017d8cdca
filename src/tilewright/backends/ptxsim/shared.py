"""Shared memory of a batch of CTAs, with a shadow that finds races and reads of what nobody stored.

Addresses count from the start of a CTA's own memory. `mapa` names another CTA of the cluster by its rank plus one
above bit `WINDOW_BITS`; a plain address means one's own. `locate` turns both into indices of `data`.

Of every byte the shadow knows the last writing warp and when it wrote, and which warps have read it since. An access
must be ordered behind conflicting ones by what its warp knows (`clocks.py`). Bytes that asynchronous copies will
write (`pending`) may not be touched; bytes that asynchronous instructions read (`in_use`) may not be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.ptxsim.clocks import Clocks
from tilewright.backends.ptxsim.memory import Fault
from tilewright.backends.ptxsim.value_types import Array

WINDOW_BITS = 24
"""Addresses of shared::cluster: bits below count bytes, bits from here on the rank of the CTA plus one."""
ALIGNMENT = 1024
"""Every CTA's memory starts at a multiple of this, as the swizzles of tensor copies want it."""
_WARP_BITS = 12
_WARP = (1 << 11) - 1
_ATOMIC = 1 << 11
"""What a write is known by: the warp, whether it was atomic, and above _WARP_BITS its time."""


class SharedMemory:
    """The shared memory of all CTAs of a batch.

    Args:
        ctas: of the batch.
        size: bytes that a CTA has.
        cluster: CTAs per cluster; the CTAs of one stand side by side.
        clocks: what warps know of each other.
        checks: watch for races; the other checks are always on.

    Attributes:
        data: all bytes; a CTA's begin at `base(cta)`.
        views: the same as unsigned numbers, by their width.
        initialised: per byte, has it a value?
        pending: per byte, asynchronous copies that will still write it.
        in_use: per byte, asynchronous instructions that still read it.
        unfenced: per byte, stored by a thread, and no fence lets asynchronous engines see it.
    """

    def __init__(self, ctas: int, size: int, *, cluster: int, clocks: Clocks, checks: bool) -> None:
        self.size, self.cluster, self.clocks, self.checks = size, cluster, clocks, checks
        self.stride = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        total = ctas * self.stride
        self.data = np.zeros(total, np.uint8)
        self.views: dict[int, Array] = {width: self.data.view(f"u{width}") for width in (1, 2, 4, 8)}
        self.initialised = np.zeros(total, bool)
        self.pending = np.zeros(total, np.int32)
        self.in_use = np.zeros(total, np.int32)
        self.unfenced = np.zeros(total, bool)
        self._any_pending = self._any_in_use = 0
        self._written = np.zeros(total, np.int64)
        self._read_time = np.zeros(total, np.int64)
        self._readers = np.zeros(total, np.uint64)

    def base(self, cta: Any) -> Any:
        """Where in `data` the memory of a CTA (or of each of an array of CTAs) begins."""
        return cta * self.stride

    def locate(self, addresses: Array, ctas: Array, width: int, what: str) -> Array | Fault:
        """Indices of `data` for shared addresses as seen from `ctas`, or what is wrong with them."""
        ranks = addresses >> WINDOW_BITS
        offsets = addresses
        owners = ctas
        if ranks.any():
            offsets = addresses & ((1 << WINDOW_BITS) - 1)
            owners = np.where(ranks > 0, ctas // self.cluster * self.cluster + ranks - 1, ctas)
            if (ranks > self.cluster).any() or (ranks < 0).any():
                index = int(np.flatnonzero((ranks > self.cluster) | (ranks < 0))[0])
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

    # What follows takes indices of single bytes, and per byte the warp (of the batch) that touches it.

    def read(self, index: Array, warps: Array) -> Fault | None:
        """Warps read bytes: check, and note it in the shadow. The fault's index is one of `index`."""
        if not self.initialised[index].all():
            return self._fault("uninitialised memory", "read of shared memory that nothing has stored", index, "unset")
        if self._any_pending and self.pending[index].any():
            return self._fault("race", "read of shared memory that an asynchronous copy is writing", index, "pending")
        if not self.checks:
            return None
        conflict = self._unordered_writes(index, warps)
        if conflict is not None:
            writer = int(self._written[index[conflict]]) & _WARP
            text = f"read of shared memory that warp {writer} has stored, with no barrier between"
            return Fault("race", text, conflict)
        self.note_read(index, warps)
        return None

    def note_read(self, index: Array, warps: Array) -> None:
        """Remember that warps have read bytes."""
        bits = np.uint64(1) << (warps % self.clocks.peers).astype(np.uint64)
        ordered = self._read_time[index] <= self.clocks.floor[warps]
        stale = index[ordered & (self._read_time[index] != self.clocks.time)]
        self._readers[stale] = 0
        np.bitwise_or.at(self._readers, index, bits)
        self._read_time[index] = self.clocks.time

    def write(self, index: Array, warps: Array) -> Fault | None:
        """Warps are about to store bytes: check, and note it in the shadow. The fault's index is one of `index`."""
        if self._any_pending and self.pending[index].any():
            return self._fault("race", "store to shared memory that an asynchronous copy is writing", index, "pending")
        if self._any_in_use and self.in_use[index].any():
            text = "store to shared memory that an asynchronous instruction still reads"
            return self._fault("race", text, index, "in_use")
        if self.checks:
            fault = self._write_conflict(index, warps)
            if fault is not None:
                return fault
        self.note_write(index, warps)
        return None

    def note_write(self, index: Array, warps: Array, time: int | None = None) -> None:
        """Remember that warps have stored bytes: now, or at a time that has been."""
        self.initialised[index] = self.unfenced[index] = True
        time = self.clocks.time if time is None else time
        self._written[index] = (time << _WARP_BITS) | (warps % self.clocks.peers)
        self._readers[index] = 0
        self._read_time[index] = 0

    def atomic(self, index: Array, warps: Array) -> Fault | None:
        """Warps are about to change bytes atomically, which conflicts with plain stores only."""
        if not self.initialised[index].all():
            return self._fault("uninitialised memory", "atomic operation on memory nothing has stored", index, "unset")
        if self._any_pending and self.pending[index].any():
            text = "atomic operation on shared memory that an asynchronous copy is writing"
            return self._fault("race", text, index, "pending")
        if self.checks:
            plain = np.flatnonzero(self._written[index] & _ATOMIC == 0)
            conflict = self._unordered_writes(index[plain], warps[plain])
            if conflict is not None:
                return Fault("race", "atomic operation on what another warp has just stored", int(plain[conflict]))
        self._written[index] = (self.clocks.time << _WARP_BITS) | _ATOMIC | (warps % self.clocks.peers)
        return None

    def _write_conflict(self, index: Array, warps: Array) -> Fault | None:
        conflict = self._unordered_writes(index, warps)
        if conflict is not None:
            writer = int(self._written[index[conflict]]) & _WARP
            text = f"store to shared memory that warp {writer} has stored, with no barrier between"
            return Fault("race", text, conflict)
        conflict = self._unordered_reads(index, warps)
        if conflict is not None:
            readers = int(self._readers[index[conflict]]) & ~(1 << (int(warps[conflict]) % self.clocks.peers))
            reader = (readers & -readers).bit_length() - 1
            text = f"store to shared memory that warp {reader} has read, with no barrier between"
            return Fault("race", text, conflict)
        return None

    def _unordered_writes(self, index: Array, warps: Array) -> int | None:
        """The first of the bytes whose last write is not ordered before now."""
        written = self._written[index]
        times = written >> _WARP_BITS
        open_ = times > self.clocks.floor[warps]
        if not open_.any():
            return None
        writers = written & _WARP
        open_ &= (writers != warps % self.clocks.peers) & (times > self.clocks.known[warps, writers])
        return int(open_.argmax()) if open_.any() else None

    def _unordered_reads(self, index: Array, warps: Array) -> int | None:
        """The first of the bytes that a warp has read which does not know of the coming store."""
        times = self._read_time[index]
        open_ = np.flatnonzero(times > self.clocks.floor[warps])
        if not open_.size:
            return None
        readers, mine, times = self._readers[index[open_]], warps[open_] % self.clocks.peers, times[open_]
        for peer in range(self.clocks.peers):
            has_read = (readers >> np.uint64(peer)) & np.uint64(1) != 0
            wrong = has_read & (mine != peer) & (times > self.clocks.known[warps[open_], peer])
            if wrong.any():
                return int(open_[wrong.argmax()])
        return None

    def _fault(self, kind: str, text: str, index: Array, which: str) -> Fault:
        wrong = {
            "unset": ~self.initialised[index],
            "pending": self.pending[index] > 0,
            "in_use": self.in_use[index] > 0,
        }
        return Fault(kind, text, int(wrong[which].argmax()))

    # Asynchronous copies and products. They check first with `read` or `write`, then hold the bytes.

    def hold_for_write(self, index: Array) -> None:
        """An asynchronous copy will write these bytes; until `end_write` nobody may touch them."""
        np.add.at(self.pending, index, 1)
        self._any_pending += len(index)

    def end_write(self, index: Array) -> None:
        """The copy has landed. Call `note_write` for the warp that has waited for it."""
        np.subtract.at(self.pending, index, 1)
        self._any_pending -= len(index)

    def hold_for_read(self, index: Array) -> None:
        """An asynchronous instruction reads these bytes; until `end_read` nobody may store to them."""
        np.add.at(self.in_use, index, 1)
        self._any_in_use += len(index)

    def end_read(self, index: Array) -> None:
        """The instruction has read them. Call `note_read` for the warp that has waited for it."""
        np.subtract.at(self.in_use, index, 1)
        self._any_in_use -= len(index)

    def engine_read(self, index: Array, warps: Array) -> Fault | None:
        """What is wrong with an engine's read of bytes that it does for all of these warps."""
        if not self.initialised[index].all():
            return self._fault("uninitialised memory", "read of shared memory that nothing has stored", index, "unset")
        if self._any_pending and self.pending[index].any():
            return self._fault("race", "read of shared memory that an asynchronous copy is writing", index, "pending")
        if not self.checks:
            return None
        for warp in warps:
            conflict = self._unordered_writes(index, np.full(len(index), warp))
            if conflict is not None:
                writer = int(self._written[index[conflict]]) & _WARP
                text = f"an asynchronous instruction of warp {warp} reads shared memory that warp {writer} has stored"
                return Fault("race", f"{text}, with no barrier between", conflict)
        if self.unfenced[index].any():
            text = "an asynchronous instruction reads shared memory that threads have stored, with no fence.proxy.async"
            return Fault("race", text, int(self.unfenced[index].argmax()))
        return None

    def note_read_by_all(self, index: Array, warps: Array, time: int | None = None) -> None:
        """As `note_read`, for bytes that every one of the warps has read: now, or at a time that has been."""
        bits = np.bitwise_or.reduce(np.uint64(1) << (warps % self.clocks.peers).astype(np.uint64))
        time = self.clocks.time if time is None else time
        times, ordered = self._read_time[index], self.clocks.floor[warps].min()
        fresh = (times <= ordered) & (times < time)
        self._readers[index] = np.where(fresh, bits, self._readers[index] | bits)
        self._read_time[index] = np.maximum(times, time)

    def fence(self, warps: Array) -> None:
        """Asynchronous engines see from now on what these warps have stored, and what they know to be stored."""
        open_ = np.flatnonzero(self.unfenced)
        written = self._written[open_]
        writers, times = written & _WARP, written >> _WARP_BITS
        cluster = open_ // self.stride // self.cluster
        for warp in warps:
            mine = (warp // self.clocks.peers == cluster) & (
                (writers == warp % self.clocks.peers) | (times <= self.clocks.known[warp, writers])
            )
            self.unfenced[open_[mine]] = False
