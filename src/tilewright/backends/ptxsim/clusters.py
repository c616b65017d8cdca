"""CTAs of a cluster: addresses of each other's shared memory, and their common barrier.

    mapa.shared::cluster.u32 %r2, %r1, %r3;      getctarank.shared::cluster.u32 %r4, %r2;
    barrier.cluster.arrive.aligned;              barrier.cluster.wait.aligned;

What a thread does before it arrives is ordered before what others do after they have waited. Loads and stores to
`shared::cluster` are those of `accesses.py`: `shared.py` tells the CTA by the address.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.backends.ptxsim.code import Moves, Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.shared import WINDOW_BITS
from tilewright.backends.ptxsim.spaces import WINDOWS
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction

_OFFSET = (1 << WINDOW_BITS) - 1


def decode_map(instruction: Instruction, code: Decoder) -> Run:
    """mapa{.shared::cluster}.type d, a, rank: the address of the same byte in another CTA."""
    kind = instruction.type
    source, number = instruction.sources
    write = code.target(instruction.destination, kind)
    read, rank = code.source(source, kind), code.source(number, "u32")
    window = 0 if instruction.has("shared::cluster") else WINDOWS["shared"]

    def run(machine: Machine, active: Mask) -> None:
        own = np.broadcast_to(read(machine), machine.lanes).astype(np.int64) - window
        ranks = np.broadcast_to(rank(machine), machine.lanes).astype(np.int64)
        lanes = machine.active_lanes(active)
        wrong = ranks[lanes] >= machine.cluster_size
        if wrong.any():
            text = f"the cluster has {machine.cluster_size} CTAs, and none of rank {int(ranks[lanes][wrong.argmax()])}"
            machine.fail("out of bounds", text, int(lanes[wrong.argmax()]))
        found = (own & _OFFSET) | ((ranks + 1) << WINDOW_BITS)
        write(machine, active, (found + window).astype(f"u{4 if kind.endswith('32') else 8}"))

    return run


def decode_rank(instruction: Instruction, code: Decoder) -> Run:
    """getctarank{.shared::cluster}.type d, a: the rank of the CTA that owns an address."""
    kind = instruction.type
    (source,) = instruction.sources
    write, read = code.target(instruction.destination, "u32"), code.source(source, kind)
    window = 0 if instruction.has("shared::cluster") else WINDOWS["shared"]

    def run(machine: Machine, active: Mask) -> None:
        ranks = (np.broadcast_to(read(machine), machine.lanes).astype(np.int64) - window) >> WINDOW_BITS
        own = machine.cta % machine.cluster_size
        write(machine, active, np.where(ranks > 0, ranks - 1, own).astype(np.uint32))

    return run


@dataclass
class BarrierRound:
    """One round of a cluster's barrier.

    Attributes:
        arrived: lanes that have come.
        waiting: lanes that wait for the others.
        seen: what those know who have come, for `Clocks.join`.
    """

    arrived: Array
    waiting: Array
    seen: Array


@dataclass
class Ended:
    """The round before: what its members knew, and who has not waited for it yet."""

    seen: Array
    missing: Array


class ClusterBarriers:
    """The barriers of all clusters of a machine, by the number of the cluster."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.lanes_per_cluster = machine.padded * machine.cluster_size
        self.cluster = machine.everyone // self.lanes_per_cluster
        self.open: dict[int, BarrierRound] = {}
        self.ended: dict[int, Ended] = {}
        machine.at_exit.append(self.left)

    def arrive(self, lanes: Array) -> None:
        """Note that lanes (a mask) have come."""
        machine = self.machine
        for number in np.unique(self.cluster[lanes]):
            mine = lanes & (self.cluster == number)
            barrier_round = self._round(int(number))
            again = (barrier_round.arrived | self._missing(int(number))) & mine
            if again.any():
                machine.fail("barrier", "the thread arrives twice and has not waited between", int(again.argmax()))
            barrier_round.arrived = barrier_round.arrived | mine
            barrier_round.seen = np.maximum(barrier_round.seen, machine.clocks.publish(np.unique(machine.warp[mine])))
            self._complete(int(number))

    def wait(self, lanes: Array) -> Array:
        """Lanes (a mask) wait for the round in which they have arrived; returns those that need not."""
        machine, free = self.machine, np.zeros(self.machine.lanes, bool)
        for number in np.unique(self.cluster[lanes]):
            mine = lanes & (self.cluster == number)
            over = mine & self._missing(int(number))
            if over.any():
                ended = self.ended[int(number)]
                machine.clocks.join(np.unique(machine.warp[over]), ended.seen)
                ended.missing = ended.missing & ~over
                free |= over
            rest = mine & ~over
            if rest.any():
                barrier_round = self._round(int(number))
                if (rest & ~barrier_round.arrived).any():
                    lane = int((rest & ~barrier_round.arrived).argmax())
                    machine.fail("barrier", "the thread waits for the cluster and has not arrived", lane)
                barrier_round.waiting = barrier_round.waiting | rest
        return free

    def _missing(self, number: int) -> Array:
        ended = self.ended.get(number)
        return np.zeros(self.machine.lanes, bool) if ended is None else ended.missing

    def _round(self, number: int) -> BarrierRound:
        nobody = np.zeros(self.machine.lanes, bool)
        nothing = np.zeros(self.machine.clocks.peers, np.int64)
        return self.open.setdefault(number, BarrierRound(nobody, nobody, nothing))

    def _complete(self, number: int) -> None:
        machine, barrier_round = self.machine, self.open[number]
        if (machine.alive & (self.cluster == number) & ~barrier_round.arrived).any():
            return
        del self.open[number]
        self.ended[number] = Ended(barrier_round.seen, barrier_round.arrived & ~barrier_round.waiting & machine.alive)
        if barrier_round.waiting.any():
            machine.clocks.join(np.unique(machine.warp[barrier_round.waiting]), barrier_round.seen)
            machine.release(barrier_round.waiting)

    def left(self, lanes: Array) -> None:
        """Note that lanes have ended: nobody waits for them any longer."""
        for number in list(self.open):
            if lanes[self.cluster == number].any():
                self._complete(number)


def decode_barrier(instruction: Instruction, code: Decoder) -> Run:
    """barrier.cluster.{arrive, wait}{.release, …}{.aligned}."""
    aligned = instruction.has("aligned")
    arrives = instruction.has("arrive")

    def run(machine: Machine, active: Mask) -> Moves | None:
        if aligned:
            machine.whole_warps(active)
        lanes = machine.alive if active is None else active
        barriers = machine.family(ClusterBarriers)
        if arrives:
            barriers.arrive(lanes)
            return None
        free = barriers.wait(lanes)
        rest = lanes & ~free
        if not rest.any():
            return None
        machine.park(rest)
        return [(machine.at + 1, free)] if free.any() else []

    return run


HANDLERS: Handlers = {
    "mapa": decode_map,
    "getctarank": decode_rank,
    "barrier.cluster": decode_barrier,
}
