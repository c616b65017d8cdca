"""The knowledge of each warp about the others: which of their accesses lie behind it, through barriers.

    clocks.barrier(arriving=[0, 1, 2, 3], waiting=[0, 1, 2, 3])     # bar.sync of four warps
    clocks.floor[2]          # accesses of any warp up to this time are ordered before warp 2's next ones

Time advances with every synchronisation. An access of warp `v` at time `t` is ordered before what warp `w` does now
when `t <= known[w, v]`: the vector clocks of race detectors, with one time for all warps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.backends.ptxsim.value_types import Array

Indices = Sequence[int] | Array


class Clocks:
    """The clocks of all warps of a batch.

    Args:
        warps: of the batch.
        peers: warps of one cluster; a warp only meets those.
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
        """The knowledge of somebody who waits for all these warps: a vector for `join`. Time advances."""
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
