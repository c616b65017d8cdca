"""Barriers of a CTA, of a warp and of a cluster of CTAs; addresses in the shared memory of other CTAs.

    bar.sync 1, 64;      barrier.cta.arrive 2, 128;      bar.red.popc.u32 %r1, 0, %p1;      bar.warp.sync -1;

A barrier of a CTA counts threads, by whole warps: those that wait and those that only arrive. When all have arrived,
the waiting ones continue, and accesses before an arrival are ordered before accesses after the wait.

    mapa.shared::cluster.u32 %r2, %r1, %r3;      getctarank.shared::cluster.u32 %r4, %r2;
    barrier.cluster.arrive.aligned;              barrier.cluster.wait.aligned;

Accesses of a thread before it arrives at its cluster's barrier are ordered before those of others after their wait.
Loads and stores to `shared::cluster` are in `accesses.py`: `shared.py` finds the CTA by the address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.accesses import WINDOWS
from tilewright.backends.ptxsim.code import Moves, Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.shared import NAMED, OFFSET, WINDOW_BITS
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction


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
        found = own & OFFSET | ranks << WINDOW_BITS | NAMED
        write(machine, active, (found + window).astype(f"u{4 if kind.endswith('32') else 8}"))

    return run


def decode_rank(instruction: Instruction, code: Decoder) -> Run:
    """getctarank{.shared::cluster}.type d, a: the rank of the CTA that owns an address."""
    kind = instruction.type
    (source,) = instruction.sources
    write, read = code.target(instruction.destination, "u32"), code.source(source, kind)
    window = 0 if instruction.has("shared::cluster") else WINDOWS["shared"]

    def run(machine: Machine, active: Mask) -> None:
        addresses = np.broadcast_to(read(machine), machine.lanes).astype(np.int64) - window
        owners = machine.shared.owners(addresses, machine.cta)
        write(machine, active, (owners % machine.cluster_size).astype(np.uint32))

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
        """Record that lanes have ended: barriers no longer wait for them."""
        for number in list(self.open):
            if lanes[self.cluster == number].any():
                self._complete(number)


def decode_cluster_barrier(instruction: Instruction, code: Decoder) -> Run:
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


Finish: TypeAlias = Callable[[Array, Array], None]
"""(lanes that came together, votes of all) → None."""


@dataclass
class Arrivals:
    """The lanes that have come to one barrier of one CTA.

    Attributes:
        came: lanes that arrived.
        waiting: those of them that wait.
        expected: threads to come; None: all that still run.
        votes: predicates of those that came to a `bar.red`.
        finish: called with the votes of all once they are there, per group that came.
    """

    came: Array
    waiting: Array
    votes: Array
    expected: int | None
    finish: list[tuple[Finish, Array]] = field(default_factory=list)


@dataclass
class Ballot:
    """The vote of a `bar.red`: a predicate per lane, and what to do with those of all."""

    votes: Array
    finish: Finish


class CtaBarriers:
    """The named barriers of all CTAs of a machine, by (CTA, number)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.open: dict[tuple[int, int], Arrivals] = {}
        machine.at_exit.append(self.left)

    def arrive(self, lanes: Array, barrier: int, expected: int | None, *, waits: bool, ballot: Ballot | None) -> None:
        """Lanes (a mask) come to a barrier of their CTAs; those that wait have been parked.

        Args:
            lanes: which lanes come.
            barrier: its number.
            expected: the number of lanes that are to come; None: all of the CTA that have not ended.
            waits: the lanes wait for the others.
            ballot: their votes, if it is a vote.
        """
        machine = self.machine
        for cta in np.unique(machine.cta[lanes]):
            mine = lanes & (machine.cta == cta)
            key = (int(cta), barrier)
            arrivals = self.open.get(key)
            if arrivals is None:
                empty = np.zeros(machine.lanes, bool)
                arrivals = self.open[key] = Arrivals(empty, empty, empty, expected)
            if arrivals.expected != expected:
                text = f"threads of barrier {barrier} disagree on how many are to come"
                machine.fail("barrier", text, int(mine.argmax()))
            if (arrivals.came & mine).any():
                lane = int((arrivals.came & mine).argmax())
                machine.fail("barrier", f"a thread comes to barrier {barrier} twice before all others have come", lane)
            arrivals.came = arrivals.came | mine
            arrivals.waiting = arrivals.waiting | mine if waits else arrivals.waiting
            if ballot is not None:
                arrivals.votes = np.where(mine, ballot.votes, arrivals.votes)
                arrivals.finish.append((ballot.finish, mine))
            self._complete(key, arrivals)

    def _complete(self, key: tuple[int, int], arrivals: Arrivals) -> None:
        machine = self.machine
        expected = arrivals.expected
        if expected is None:
            expected = int((machine.alive & (machine.cta == key[0])).sum())
        count = int(arrivals.came.sum())
        if count < expected:
            return
        if count > expected:
            text = f"{count} threads come to barrier {key[1]}, which waits for {expected}: chance says for which"
            machine.fail("barrier", text, int(arrivals.came.argmax()))
        del self.open[key]
        came, waiting = (np.unique(machine.warp[mask]) for mask in (arrivals.came, arrivals.waiting))
        machine.clocks.barrier(came, waiting)
        for finish, mine in arrivals.finish:
            finish(mine, arrivals.votes[arrivals.came])
        machine.release(arrivals.waiting)

    def left(self, lanes: Array) -> None:
        """Lanes have ended: barriers of all threads wait for them no longer."""
        for key, arrivals in list(self.open.items()):
            self._complete(key, arrivals)


def _parts(instruction: Instruction) -> tuple[str, ...]:
    """The opcode without what all spellings share: `bar.sync`, `barrier.cta.sync.aligned`."""
    return tuple(part for part in instruction.parts[1:] if part not in ("cta", "aligned"))


def decode_barrier(instruction: Instruction, code: Decoder) -> Run:
    parts = _parts(instruction)
    if parts[0] == "red":
        return _decode_reduction(instruction, code, parts)
    number, *counts = (code.source(operand, "u32") for operand in instruction.operands)
    count = counts[0] if counts else None
    waits, aligned = parts[0] == "sync", _is_aligned(instruction)

    def run(machine: Machine, active: Mask) -> Moves | None:
        return _come(machine, active, number, count, waits=waits, aligned=aligned, ballot=None)

    return run


def _is_aligned(instruction: Instruction) -> bool:
    return instruction.opcode == "bar" or instruction.has("aligned")


def _come(
    machine: Machine,
    active: Mask,
    number: Read,
    count: Read | None,
    *,
    waits: bool,
    aligned: bool,
    ballot: Ballot | None,
) -> Moves | None:
    if aligned:
        machine.whole_warps(active)
    mask = machine.alive if active is None else active
    numbers = np.broadcast_to(number(machine), machine.lanes)
    counts = np.broadcast_to(count(machine), machine.lanes) if count is not None else None
    if waits:
        machine.park(mask)
    barriers = machine.family(CtaBarriers)
    for barrier in np.unique(numbers[mask]):
        mine = mask & (numbers == barrier)
        expected = None
        if counts is not None:
            expected = int(counts[int(mine.argmax())])
            if expected % WARP or not expected:
                text = f"barrier {barrier} wants {expected} threads, which are no whole warps"
                machine.fail("barrier", text, int(mine.argmax()))
        barriers.arrive(mine, int(barrier), expected, waits=waits, ballot=ballot)
    return [] if waits else None


def _decode_reduction(instruction: Instruction, code: Decoder, parts: tuple[str, ...]) -> Run:
    """bar.red.{popc.u32, and.pred, or.pred} result, barrier{, count}, {!}predicate."""
    kind, result_type = parts[1], parts[2]
    result, number, *middle, last = instruction.operands
    write, read = code.target(result, result_type), code.source(last, "pred")
    count = code.source(middle[0], "u32") if middle else None
    barrier = code.source(number, "u32")
    aligned = _is_aligned(instruction)

    def run(machine: Machine, active: Mask) -> Moves | None:
        votes = np.broadcast_to(read(machine), machine.lanes)

        def finish(mine: Array, all_votes: Array) -> None:
            found = {"popc": all_votes.sum(), "and": all_votes.all(), "or": all_votes.any()}[kind]
            write(machine, mine, np.array([found], np.uint32 if kind == "popc" else bool))

        ballot = Ballot(votes, finish)
        return _come(machine, active, barrier, count, waits=True, aligned=aligned, ballot=ballot)

    return run


def decode_warp_barrier(instruction: Instruction, code: Decoder) -> Run:
    members = code.source(instruction.destination, "u32")

    def run(machine: Machine, active: Mask) -> None:
        require_members(machine, active, np.broadcast_to(members(machine), machine.lanes))

    return run


def require_members(machine: Machine, active: Mask, members: Array) -> None:
    """Check that the member masks name exactly the lanes that execute the instruction."""
    if active is None and (members == 0xFFFFFFFF).all():
        return
    here = (machine.alive if active is None else active).reshape(-1, WARP)
    named = (members.reshape(-1, WARP)[:, :, None] >> np.arange(WARP, dtype=np.uint32)) & 1 != 0
    absent = here[:, :, None] & named & (machine.alive.reshape(-1, WARP) & ~here)[:, None, :]
    if absent.any():
        warp, _, other = (int(n[0]) for n in np.nonzero(absent))
        text = "the instruction names this thread as a member, and it is elsewhere"
        machine.fail("divergent warp", text, warp * WARP + other)
    unnamed = here & ~np.diagonal(named, axis1=1, axis2=2)
    if unnamed.any():
        text = "the thread executes the instruction, and its mask of members does not name it"
        machine.fail("divergent warp", text, int(unnamed.ravel().argmax()))


HANDLERS: Handlers = {
    "mapa": decode_map,
    "getctarank": decode_rank,
    "barrier.cluster": decode_cluster_barrier,
    "bar": decode_barrier,
    "barrier.cta": decode_barrier,
    "barrier.sync": decode_barrier,
    "barrier.arrive": decode_barrier,
    "barrier.red": decode_barrier,
    "bar.warp": decode_warp_barrier,
}
