"""The shadows of memory, by which races are found: for each unit, the last writer and the readers.

An access must be ordered after conflicting ones by the vector clock of its warp:

    clocks.barrier(arriving=[0, 1, 2, 3], waiting=[0, 1, 2, 3])     # bar.sync of four warps
    clocks.floor[2]          # accesses of any warp up to this time are ordered before warp 2's next ones

Time advances with every synchronisation. An access of warp `v` at time `t` is ordered before the current accesses of
warp `w` when `t <= known[w, v]`: the vector clocks of race detectors, with one clock for all warps.

Shared memory: for every unit the shadow keeps the last writing warp and the time of the write, and for each warp of the
cluster the time of its last read. Units that asynchronous copies will write (`pending`) may not be accessed; units that
asynchronous instructions read (`in_use`) may not be written. A unit has as many bytes as the narrowest access of the
program, at most eight, so that two threads that store to neighbouring addresses never share one.

Global memory, as far as races there can be recognised:

    CTA 3 loads what CTA 1 has stored in the same launch, and has done nothing atomic since: the order is chance.

For every unit the shadow keeps its last writer and its last reader. Inside a cluster the clocks decide whether accesses
are ordered. CTAs of different clusters are not ordered; but a CTA that has done an atomic operation, or a load with
acquire semantics, since the other's access may be ordered after it, and is not reported. Stores of the value that is
already there are not reported either, nor are stores after loads of the same CTA: warps that hold copies of a tile all
load it, and one of them stores it. Block copies (bulk and tensor copies) are not watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.backends.ptxsim.memory import Fault
from tilewright.backends.ptxsim.value_types import Array

Indices = Sequence[int] | Array


class Clocks:
    """The clocks of all warps of a batch.

    Args:
        peers: warps of one cluster; a warp only synchronises with those.
        time: to begin with.

    Attributes:
        time: of accesses that happen now.
        known: per warp and peer, up to when the peer's accesses are ordered before now.
        floor: the least of those, the warp itself left out.
    """

    def __init__(self, warps: int, peers: int, time: int = 1) -> None:
        self.time = time
        self.peers = peers
        self.known = np.zeros((warps, peers), np.int64)
        self.floor = np.zeros(warps, np.int64)

    def barrier(self, arriving: Indices, waiting: Indices) -> None:
        """Order all that `arriving` did before all that `waiting` do next; both lists of warps of one cluster."""
        self.join(waiting, self.publish(arriving))

    def publish(self, warps: Indices) -> Array:
        """The vector clock of a wait for all these warps, for `join`. Time advances."""
        index = np.asarray(warps)
        vector = self.known[index].max(axis=0)
        vector[index % self.peers] = self.time
        self.time += 1
        return np.asarray(vector)

    def join(self, warps: Indices, vector: Array) -> None:
        """The warps have waited for what `vector` stands for."""
        index = np.asarray(warps)
        self.known[index] = np.maximum(self.known[index], vector)
        others = self.known[index].copy()
        others[np.arange(len(index)), index % self.peers] = np.iinfo(np.int64).max
        self.floor[index] = others.min(axis=1)


_WARP_BITS = 12
_WARP = (1 << 11) - 1
_ATOMIC = 1 << 11
"""The parts of a write's record: the warp, whether it was atomic, and above _WARP_BITS its time."""


class AccessTimes:
    """The last accesses to units of a memory that the warps of clusters share; finds who is not ordered behind them.

    Args:
        units: of all CTAs.
        clocks: the knowledge of warps about each other.
    """

    def __init__(self, units: int, clocks: Clocks) -> None:
        self.clocks = clocks
        self._written = np.zeros(units, np.int64)
        self._last_read = np.zeros(units, np.int64)
        self._reads = np.zeros((units, clocks.peers), np.int32)

    def forget_all(self, index: Array) -> None:
        """Forget every access to the units."""
        self._written[index] = self._last_read[index] = 0

    def note_write(self, index: Array, warps: Array, time: int | None = None) -> None:
        """Remember that warps have stored: now, or at a time that has been."""
        time = self.clocks.time if time is None else time
        self._written[index] = (time << _WARP_BITS) | (warps % self.clocks.peers)
        self._last_read[index] = 0  # who is ordered behind the store is so behind reads that it was ordered behind

    def note_read(self, index: Array, warps: Array) -> None:
        """Remember that warps have read."""
        self._reads[index, warps % self.clocks.peers] = self.clocks.time
        self._last_read[index] = self.clocks.time

    def note_read_by_all(self, index: Array, warps: Array, time: int | None = None) -> None:
        """As `note_read`, for what every one of the warps has read: now, or at a time that has been."""
        time = self.clocks.time if time is None else time
        for peer in np.unique(warps % self.clocks.peers):
            self._reads[index, peer] = np.maximum(self._reads[index, peer], time)
        self._last_read[index] = np.maximum(self._last_read[index], time)

    def unordered_writes(self, index: Array, warps: Array, left_out: Array | None = None) -> int | None:
        """The first place whose last write is not ordered before now; some are left out."""
        written = self._written[index]
        times = written >> _WARP_BITS
        open_ = times > self.clocks.floor[warps]
        if left_out is not None:
            open_ &= ~left_out
        if not open_.any():
            return None
        writers = written & _WARP
        open_ &= (writers != warps % self.clocks.peers) & (times > self.clocks.known[warps, writers])
        return int(open_.argmax()) if open_.any() else None

    def unordered_reads(self, index: Array, warps: Array) -> tuple[int, int] | None:
        """The first place that a warp has read which does not know of the coming store, and that warp."""
        open_ = np.flatnonzero(self._last_read[index] > self.clocks.floor[warps])
        if not open_.size:
            return None
        wrong = self._reads[index[open_]] > self.clocks.known[warps[open_]]
        wrong[np.arange(len(open_)), warps[open_] % self.clocks.peers] = False
        if not wrong.any():
            return None
        place, reader = np.unravel_index(wrong.argmax(), wrong.shape)
        return int(open_[place]), int(reader)

    def writer(self, unit: int) -> int:
        """The warp, in its cluster, that has stored last."""
        return int(self._written[unit]) & _WARP


class Shadow(AccessTimes):
    """The shadow of the shared memory of a batch.

    Indices are of units; `warps` says per index which warp (of the batch) touches it.

    Args:
        units: of all CTAs.
        cluster_units: of the CTAs of one cluster.
        clocks: the knowledge of warps about each other.
        checks: watch for races; the other checks are always on.

    Attributes:
        initialised: has it a value?
        pending: asynchronous copies that will write it.
        in_use: asynchronous instructions that still read it.
        unfenced: stored by a thread, and no fence lets asynchronous engines see it.
    """

    def __init__(self, units: int, cluster_units: int, *, clocks: Clocks, checks: bool) -> None:
        super().__init__(units, clocks)
        self.cluster_units, self.checks = cluster_units, checks
        self.initialised = np.zeros(units, bool)
        self.pending = np.zeros(units, np.int32)
        self.in_use = np.zeros(units, np.int32)
        self.unfenced = np.zeros(units, bool)
        self._any_pending = self._any_in_use = 0

    def read(self, index: Array, warps: Array) -> Fault | None:
        """Warps read: check, and note it. The fault's index is a place in `index`."""
        fault = self.look(index, warps)
        if fault is None and self.checks:
            self.note_read(index, warps)
        return fault

    def look(self, index: Array, warps: Array) -> Fault | None:
        """Check a read as `read` does, and do not note it."""
        fault = self._unreadable(index)
        if fault is not None or not self.checks:
            return fault
        conflict = self.unordered_writes(index, warps)
        if conflict is None:
            return None
        writer = self.writer(index[conflict])
        text = f"read of shared memory that warp {writer} has stored, with no barrier between"
        return Fault("race", text, conflict)

    def _unreadable(self, index: Array) -> Fault | None:
        if not self.initialised[index].all():
            return self._fault("uninitialised memory", "read of shared memory that nothing has stored", index, "unset")
        if self._any_pending and self.pending[index].any():
            return self._fault("race", "read of shared memory that an asynchronous copy is writing", index, "pending")
        return None

    def write(self, index: Array, warps: Array, same: Array | None = None, coming: Array | None = None) -> Fault | None:
        """Warps are about to store: check, and note it. The fault's index is a place in `index`.

        Args:
            index, warps: as for `read`.
            same: what is stored is there already, by index: it does not matter who stored it.
            coming: asynchronous copies in flight bring there what is stored, by index; they may land in any order.
        """
        if self._any_pending:
            pending = self.pending[index] > 0
            pending = pending if coming is None else pending & ~coming
            if pending.any():
                text = "store to shared memory that an asynchronous copy is writing"
                return Fault("race", text, int(pending.argmax()))
        if self._any_in_use and self.in_use[index].any():
            text = "store to shared memory that an asynchronous instruction still reads"
            return self._fault("race", text, index, "in_use")
        if self.checks:
            fault = self._write_conflict(index, warps, same if coming is None else coming)
            if fault is not None:
                return fault
        self.note_write(index, warps)
        return None

    def note_write(self, index: Array, warps: Array, time: int | None = None) -> None:
        self.initialised[index] = self.unfenced[index] = True
        super().note_write(index, warps, time)

    def forget(self, index: Array) -> None:
        """Mark units as uninitialised: their content is no value any more."""
        self.initialised[index] = False

    def engine_wrote(self, index: Array) -> None:
        """An engine, not a thread, has stored there: engines need no fence to read it."""
        self.unfenced[index] = False

    def atomic(self, index: Array, warps: Array) -> Fault | None:
        """Warps are about to change numbers atomically, which conflicts with plain stores only."""
        if not self.initialised[index].all():
            return self._fault("uninitialised memory", "atomic operation on memory nothing has stored", index, "unset")
        if self._any_pending and self.pending[index].any():
            text = "atomic operation on shared memory that an asynchronous copy is writing"
            return self._fault("race", text, index, "pending")
        if self.checks:
            plain = np.flatnonzero(self._written[index] & _ATOMIC == 0)
            conflict = self.unordered_writes(index[plain], warps[plain])
            if conflict is not None:
                return Fault("race", "atomic operation on what another warp has just stored", int(plain[conflict]))
        self._written[index] = (self.clocks.time << _WARP_BITS) | _ATOMIC | (warps % self.clocks.peers)
        return None

    def _write_conflict(self, index: Array, warps: Array, same: Array | None) -> Fault | None:
        conflict = self.unordered_writes(index, warps, same)
        if conflict is not None:
            writer = self.writer(index[conflict])
            text = f"store to shared memory that warp {writer} has stored, with no barrier between"
            return Fault("race", text, conflict)
        read = self.unordered_reads(index, warps)
        if read is not None:
            conflict, reader = read
            text = f"store to shared memory that warp {reader} has read, with no barrier between"
            return Fault("race", text, conflict)
        return None

    def _fault(self, kind: str, text: str, index: Array, which: str) -> Fault:
        wrong = {
            "unset": ~self.initialised[index],
            "pending": self.pending[index] > 0,
            "in_use": self.in_use[index] > 0,
        }
        return Fault(kind, text, int(wrong[which].argmax()))

    # Asynchronous copies and products. They check first with `read` or `write`, then hold the places.

    def hold_for_write(self, index: Array) -> None:
        """An asynchronous copy will write there; until `end_write` no access is allowed."""
        self.pending[index] += 1
        self._any_pending += len(index)

    def end_write(self, index: Array) -> None:
        """The copy has landed. Call `note_write` for the warp that has waited for it."""
        self.pending[index] = np.maximum(self.pending[index] - 1, 0)  # lanes of one instruction may share a place
        self._any_pending -= len(index)

    def hold_for_read(self, index: Array) -> None:
        """An asynchronous instruction reads there; until `end_read` no store is allowed."""
        self.in_use[index] += 1
        self._any_in_use += len(index)

    def end_read(self, index: Array) -> None:
        """The instruction has read. Call `note_read` for the warp that has waited for it."""
        self.in_use[index] -= 1
        self._any_in_use -= len(index)

    def engine_read(self, index: Array, warps: Array) -> Fault | None:
        """The fault of a read that an engine does for all of these warps; None if it is good."""
        fault = self._unreadable(index)
        if fault is not None or not self.checks:
            return fault
        for warp in warps:
            conflict = self.unordered_writes(index, np.full(len(index), warp))
            if conflict is not None:
                writer = self.writer(index[conflict])
                text = f"an asynchronous instruction of warp {warp} reads shared memory that warp {writer} has stored"
                return Fault("race", f"{text}, with no barrier between", conflict)
        if self.unfenced[index].any():
            text = "an asynchronous instruction reads shared memory that threads have stored, with no fence.proxy.async"
            return Fault("race", text, int(self.unfenced[index].argmax()))
        return None

    def fence(self, warps: Array) -> None:
        """Asynchronous engines see from now on what these warps have stored, and what they know to be stored."""
        open_ = np.flatnonzero(self.unfenced)
        written = self._written[open_]
        writers, times = written & _WARP, written >> _WARP_BITS
        cluster = open_ // self.cluster_units
        for warp in warps:
            mine = (warp // self.clocks.peers == cluster) & (
                (writers == warp % self.clocks.peers) | (times <= self.clocks.known[warp, writers])
            )
            self.unfenced[open_[mine]] = False


SEVERAL = -1
"""The number that stands for a CTA where there are more than one."""


@dataclass(frozen=True)
class Accessors:
    """The CTAs, warps and clocks behind accesses to memory, one entry per access.

    Attributes:
        ctas: numbers in the grid, from 1.
        clocks: of the batch.
        cluster: CTAs per cluster.
    """

    ctas: Array
    warps: Array
    clocks: Clocks
    cluster: int

    def repeated(self, count: int) -> Accessors:
        """The same, each for `count` units."""
        return Accessors(np.repeat(self.ctas, count), np.repeat(self.warps, count), self.clocks, self.cluster)


class _Last:
    """The last accesses of one kind, by unit: CTA (0: none), warp in its cluster, time."""

    def __init__(self, units: int) -> None:
        self.cta = np.zeros(units, np.int32)
        self.warp = np.zeros(units, np.int16)
        self.time = np.zeros(units, np.int64)

    def note(self, units: Array, who: Accessors) -> None:
        self.cta[units] = who.ctas
        self.warp[units] = who.warps % who.clocks.peers
        self.time[units] = who.clocks.time

    def unordered(self, units: Array, who: Accessors, synchronised: Array, *, inside: bool = True) -> Array:
        """The mask of units whose last access is not ordered before `who`; `inside`: in its cluster."""
        cta = self.cta[units]
        if not cta.any():
            return np.zeros(len(units), bool)
        time, warp = self.time[units], self.warp[units]
        if who.cluster > 1:
            cta = np.where(cta == SEVERAL, 0, cta)  # they may all be of one cluster
        near = (cta > 0) & ((cta - 1) // who.cluster == (who.ctas - 1) // who.cluster)
        mine = near & (cta == who.ctas) & (warp == who.warps % who.clocks.peers)
        known = near if not inside else near & (time <= who.clocks.known[who.warps, warp])
        return (cta != 0) & ~mine & ~known & (time >= synchronised[who.ctas])


class GlobalShadow:
    """The shadow of the heap for one launch.

    Args:
        size: bytes of the heap that are in use.
        unit: bytes of the narrowest access by threads; bulk copies begin at multiples of larger ones.
    """

    def __init__(self, size: int, unit: int, ctas: int) -> None:
        self.unit, self._shift = unit, unit.bit_length() - 1
        self._stores, self._loads = _Last((size >> self._shift) + 1), _Last((size >> self._shift) + 1)
        self._atomic = np.zeros((size >> self._shift) + 1, bool)
        self._synchronised = np.zeros(ctas + 1, np.int64)

    def begins(self, offsets: Array) -> Array:
        """The mask of the offsets at which a unit begins."""
        return (offsets & (self.unit - 1)) == 0

    def _units(self, offsets: Array, width: int, who: Accessors) -> tuple[Array, Accessors, int]:
        count = max(1, width >> self._shift)
        units = offsets >> self._shift
        if count == 1:
            return units, who, 1
        return (units[:, None] + np.arange(count)).ravel(), who.repeated(count), count

    def load(self, offsets: Array, width: int, who: Accessors) -> Array:
        """Note loads of `width` bytes; returns which of them race with a store."""
        units, each, count = self._units(offsets, width, who)
        wrong = self._stores.unordered(units, each, self._synchronised)
        before = self._loads.cta[units]
        together = self._loads.unordered(units, each, self._synchronised, inside=False)  # earlier loads do not matter
        self._loads.note(units, each)
        self._loads.cta[units[together & (before != each.ctas)]] = SEVERAL
        return wrong.reshape(-1, count).any(axis=1)

    def store(self, offsets: Array, width: int, who: Accessors) -> Array:
        """Note stores; returns which of them race with a store or a load."""
        units, each, count = self._units(offsets, width, who)
        wrong = self._stores.unordered(units, each, self._synchronised)
        wrong |= self._loads.unordered(units, each, self._synchronised, inside=False)
        self._stores.note(units, each)
        self._atomic[units] = False
        return wrong.reshape(-1, count).any(axis=1)

    def atomic(self, offsets: Array, width: int, who: Accessors) -> Array:
        """Note atomic operations; returns which of them race with a plain store."""
        units, each, count = self._units(offsets, width, who)
        wrong = self._stores.unordered(units, each, self._synchronised) & ~self._atomic[units]
        self._stores.note(units, each)
        self._atomic[units] = True
        return wrong.reshape(-1, count).any(axis=1)

    def synchronise(self, who: Accessors) -> None:
        """CTAs do something that may order them behind others; time advances."""
        who.clocks.time += 1
        self._synchronised[who.ctas] = who.clocks.time
