"""Barriers of a CTA and of a warp.

    bar.sync 1, 64;      barrier.cta.arrive 2, 128;      bar.red.popc.u32 %r1, 0, %p1;      bar.warp.sync -1;

A barrier of a CTA counts threads, by whole warps: those that wait and those that only arrive. When all have come, the
waiting ones go on, and what the arrived ones did before is ordered before what they do next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.code import Moves, Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction

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
        """Lanes (a mask) come to a barrier of their CTAs; those that wait have been parked."""
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
        if int(arrivals.came.sum()) < expected:
            return
        del self.open[key]
        came, waiting = (np.unique(machine.warp[mask]) for mask in (arrivals.came, arrivals.waiting))
        machine.clocks.barrier(came, waiting)
        for finish, mine in arrivals.finish:
            finish(mine, arrivals.votes[arrivals.came])
        machine.release(arrivals.waiting)

    def left(self, lanes: Array) -> None:
        """Lanes have ended: barriers of all threads wait for them no longer."""
        for key, arrivals in list(self.open.items()):
            if arrivals.expected is None and lanes[self.machine.cta == key[0]].any():
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
    """Check that every running lane that a member mask names is here, and that whoever is here is named."""
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
    "bar": decode_barrier,
    "barrier.cta": decode_barrier,
    "barrier.sync": decode_barrier,
    "barrier.arrive": decode_barrier,
    "barrier.red": decode_barrier,
    "bar.warp": decode_warp_barrier,
}
