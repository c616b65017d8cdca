"""Races in global memory, as far as they can be told.

    CTA 3 loads what CTA 1 has stored in the same launch, and has done nothing atomic since: the order is chance.

Of every unit of memory the shadow knows who stored it last and who read it last. Inside a cluster the clocks say
whether a warp may rely on that. CTAs of different clusters are in no order; but one that has done an atomic operation,
or a load with an order, since the other's access may know of it, and is believed. Stores of what is there already
harm nobody, and so do stores behind loads of the same CTA: warps that hold copies of a tile all load it, and one of
them stores it. Copies of blocks (bulk and tensor copies) are not watched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.backends.ptxsim.clocks import Clocks
from tilewright.backends.ptxsim.value_types import Array

SEVERAL = -1
"""The number that stands for a CTA where there are more than one."""


@dataclass(frozen=True)
class Accessors:
    """The CTAs, warps and clocks behind accesses to memory, one entry per access.

    Attributes:
        ctas: numbers in the grid, from 1.
        warps: of the batch.
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
    """The last accesses of one kind, by unit: CTA (0: nobody), warp in its cluster, time."""

    def __init__(self, units: int) -> None:
        self.cta = np.zeros(units, np.int32)
        self.warp = np.zeros(units, np.int16)
        self.time = np.zeros(units, np.int64)

    def note(self, units: Array, who: Accessors) -> None:
        self.cta[units] = who.ctas
        self.warp[units] = who.warps % who.clocks.peers
        self.time[units] = who.clocks.time

    def unordered(self, units: Array, who: Accessors, synchronised: Array, *, inside: bool = True) -> Array:
        """The mask of units that somebody accessed last whom `who` does not wait for; `inside`: in its cluster."""
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
        unit: bytes of the narrowest access.
        ctas: of the grid.
    """

    def __init__(self, size: int, unit: int, ctas: int) -> None:
        self._shift = unit.bit_length() - 1
        self._stores, self._loads = _Last((size >> self._shift) + 1), _Last((size >> self._shift) + 1)
        self._atomic = np.zeros((size >> self._shift) + 1, bool)
        self._synchronised = np.zeros(ctas + 1, np.int64)

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
        found: Array = wrong.reshape(-1, count).any(axis=1)
        return found

    def store(self, offsets: Array, width: int, who: Accessors) -> Array:
        """Note stores; returns which of them race with a store or a load."""
        units, each, count = self._units(offsets, width, who)
        wrong = self._stores.unordered(units, each, self._synchronised)
        wrong |= self._loads.unordered(units, each, self._synchronised, inside=False)
        self._stores.note(units, each)
        self._atomic[units] = False
        found: Array = wrong.reshape(-1, count).any(axis=1)
        return found

    def atomic(self, offsets: Array, width: int, who: Accessors) -> Array:
        """Note atomic operations; returns which of them race with a plain store."""
        units, each, count = self._units(offsets, width, who)
        wrong = self._stores.unordered(units, each, self._synchronised) & ~self._atomic[units]
        self._stores.note(units, each)
        self._atomic[units] = True
        found: Array = wrong.reshape(-1, count).any(axis=1)
        return found

    def synchronise(self, who: Accessors) -> None:
        """CTAs do something that may order them behind others; time advances."""
        who.clocks.time += 1
        self._synchronised[who.ctas] = who.clocks.time
