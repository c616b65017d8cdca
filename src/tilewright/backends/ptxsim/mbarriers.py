"""Barriers in shared memory that count arrivals and bytes.

    mbarrier.init.shared::cta.b64 [%r1], 1;                    mbarrier.inval.shared::cta.b64 [%r1];
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;

A phase ends when all its arrivals have come and no bytes are outstanding. Asynchronous instructions land as late as
possible: only when a warp has tested a phase that cannot end without them, and tests it again. A warp that sees the end
of a phase has waited for all that arrived in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.accesses import WINDOWS, check_shared, lanes_of, locate_shared
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.backends.ptxsim.waiting import Reasons
from tilewright.support.ptx_syntax import Address, Instruction, Operand

WIDTH = 8
LARGEST_COUNT = (1 << 20) - 1
Landing: TypeAlias = Callable[[int], None]
"""The rest of an asynchronous instruction; a wait for it orders its warp's accesses up to the time."""
Key: TypeAlias = int
"""The index of the barrier's first byte among all bytes of shared memory."""


@dataclass(eq=False)
class Barrier:
    """One barrier.

    Attributes:
        count: arrivals of a phase.
        pending: arrivals that are still to come in this one.
        bytes: that are expected and have not come; negative while they come before they are expected.
        phase: the number of phases that have ended.
        seen: what those know who arrived in this phase, for `Clocks.join`.
        ended: the same of the phase before.
        landings: what asynchronous instructions still have to do here, in order.
        looked: warps that have tested this phase unsuccessfully.
    """

    count: int
    pending: int
    seen: Array
    ended: Array
    bytes: int = 0
    phase: int = 0
    landings: list[Pending] = field(default_factory=list)
    looked: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Pending:
    """The rest of an asynchronous instruction: what it still has to do before it arrives at its barrier."""

    barrier: Barrier
    run: Callable[[], None]

    def finish(self) -> None:
        """Do the rest, unless it is done, and arrive."""
        if self in self.barrier.landings:
            self.barrier.landings.remove(self)
            self.run()


class MBarriers:
    """All barriers of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.barriers: dict[Key, Barrier] = {}
        self._waiting: dict[int, tuple[Key, int]] = {}
        machine.at_end.append(self.land_all)
        machine.at_deadlock.append(self._explain)

    def at(self, key: Key, lane: int) -> Barrier:
        """The barrier that a lane uses.

        Raises:
            SimulationError: there is none.
        """
        found = self.barriers.get(key)
        if found is None:
            self.machine.fail("mbarrier", "there is no initialised mbarrier at this address", lane)
        return found

    def initialise(self, key: Key, count: int, lane: int) -> None:
        """Make a barrier for so many arrivals a phase."""
        if not 1 <= count <= LARGEST_COUNT:
            self.machine.fail("mbarrier", f"an mbarrier counts 1 to {LARGEST_COUNT} arrivals, not {count}", lane)
        if key in self.barriers:
            self.machine.fail("mbarrier", "there is an mbarrier already, which nobody has invalidated", lane)
        nothing = np.zeros(self.machine.clocks.peers, np.int64)
        self.barriers[key] = Barrier(count, count, nothing, nothing)

    def invalidate(self, key: Key, lane: int) -> None:
        """Remove a barrier: its bytes are free again."""
        barrier = self.at(key, lane)
        if barrier.landings or barrier.bytes:
            self.machine.fail("mbarrier", "an asynchronous instruction will still signal this mbarrier", lane)
        del self.barriers[key]

    def expect(self, key: Key, size: int, lane: int) -> None:
        """Add `size` to the bytes that this phase waits for."""
        self.at(key, lane).bytes += size

    def arrive(self, key: Key, lane: int, count: int = 1) -> None:
        """Let a lane arrive `count` times."""
        self._arrive(key, lane, count, self.machine.clocks.publish([self.machine.warp[lane]]))

    def arrive_later(self, keys: Sequence[Key], lane: int, land: Landing) -> list[Pending]:
        """Record that an asynchronous instruction of a lane will call `land`, and then arrive at some barriers."""
        known, time = self._publish(lane)

        def finish(key: Key) -> None:
            land(time)
            self._arrive(key, lane, 1, known)

        return [self._later(key, lane, partial(finish, key)) for key in keys]

    def bytes_later(self, key: Key, lane: int, size: int, land: Landing) -> Pending:
        """Record that an asynchronous copy of a lane will call `land`, and then bring `size` bytes."""
        known, time = self._publish(lane)

        def finish() -> None:
            land(time)
            barrier = self.at(key, lane)
            barrier.bytes -= size
            barrier.seen = np.maximum(barrier.seen, known)
            self._complete(barrier)

        return self._later(key, lane, finish)

    def _later(self, key: Key, lane: int, finish: Callable[[], None]) -> Pending:
        barrier = self.at(key, lane)
        pending = Pending(barrier, finish)
        barrier.landings.append(pending)
        return pending

    def _publish(self, lane: int) -> tuple[Array, int]:
        """The knowledge of those who wait for all that the lane has done so far, and the time of that."""
        clocks, warp = self.machine.clocks, int(self.machine.warp[lane])
        known = clocks.publish([warp])
        return known, int(known[warp % clocks.peers])

    def _arrive(self, key: Key, lane: int, count: int, known: Array) -> None:
        barrier = self.at(key, lane)
        if count > barrier.pending:
            text = f"{count} arrivals at an mbarrier that waits for {barrier.pending} more in this phase"
            self.machine.fail("mbarrier", text, lane)
        barrier.pending -= count
        barrier.seen = np.maximum(barrier.seen, known)
        self._complete(barrier)

    def _complete(self, barrier: Barrier) -> None:
        if barrier.pending or barrier.bytes:
            return
        barrier.phase += 1
        barrier.pending = barrier.count
        barrier.looked.clear()
        barrier.ended, barrier.seen = barrier.seen, np.zeros_like(barrier.seen)
        self.machine.changes += 1

    def has_ended(self, key: Key, lane: int, parity: int, warps: set[int]) -> bool:
        """Whether the phase of this parity has ended. After a second unsuccessful test by a warp, copies land."""
        barrier = self.at(key, lane)
        if barrier.phase % 2 != parity:
            for warp in warps:
                self._waiting.pop(warp, None)
            return True
        if warps & barrier.looked:
            self.land(barrier)
        else:
            barrier.looked |= warps
        self._waiting |= dict.fromkeys(warps, (key, self.machine.at))
        self.machine.polled = True
        return False

    def _explain(self) -> Reasons:
        """The reasons of warps that wait since an unsuccessful test of an mbarrier."""
        waiting = self._waiting.items()
        return {warp: (at, self._missing(key, warp)) for warp, (key, at) in waiting if key in self.barriers}

    def _missing(self, key: Key, warp: int) -> str:
        machine, barrier = self.machine, self.barriers[key]
        address = key - machine.shared.base(warp // machine.warps_per_cta)
        name = f"the mbarrier at shared address {address:#x}" if address >= 0 else "an mbarrier of another CTA"
        missing = [f"{barrier.pending} more of {barrier.count} arrivals"] if barrier.pending else []
        if barrier.bytes:
            missing.append(f"{barrier.bytes} more bytes" if barrier.bytes > 0 else f"{-barrier.bytes} bytes less")
        return f"{name}, phase {barrier.phase} (parity {barrier.phase % 2}), wants {' and '.join(missing)}"

    def land(self, barrier: Barrier) -> None:
        """Let all asynchronous instructions that signal this barrier finish."""
        while barrier.landings:
            barrier.landings[0].finish()
            self.machine.changes += 1

    def land_all(self) -> None:
        """Let all asynchronous instructions finish, at the end of the kernel."""
        for barrier in self.barriers.values():
            self.land(barrier)


def located_barriers(machine: Machine, addresses: Array, lanes: Array) -> Sequence[Key]:
    """The barriers that lanes name by the addresses of all lanes; generic addresses of shared memory will do."""
    chosen = lanes_of(addresses, lanes, machine)
    start = WINDOWS["shared"]
    inside = np.where(chosen >= start, chosen - start, chosen)
    index: Sequence[Key] = locate_shared(machine, inside, lanes, WIDTH, "mbarrier").tolist()
    return index


def _keys(instruction: Instruction, operand: Operand, code: Decoder) -> Callable[[Machine, Array], Sequence[Key]]:
    address = code.address(operand)

    def keys(machine: Machine, lanes: Array) -> Sequence[Key]:
        return located_barriers(machine, address(machine), lanes)

    return keys


def decode_init(instruction: Instruction, code: Decoder) -> Run:
    place, number = instruction.operands
    keys, count = _keys(instruction, place, code), code.source(number, "u32")

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        found, counts = keys(machine, lanes), lanes_of(count(machine), lanes, machine)
        check_shared(machine, np.array(found), lanes, WIDTH, "write")
        for key, lane, number in zip(found, lanes, counts, strict=True):
            machine.family(MBarriers).initialise(key, int(number), int(lane))

    return run


def decode_invalidate(instruction: Instruction, code: Decoder) -> Run:
    keys = _keys(instruction, instruction.destination, code)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        found = keys(machine, lanes)
        check_shared(machine, np.array(found), lanes, WIDTH, "write")
        for key, lane in zip(found, lanes, strict=True):
            machine.family(MBarriers).invalidate(key, int(lane))
            machine.shared.forget(key + np.arange(WIDTH))

    return run


def decode_arrive(instruction: Instruction, code: Decoder) -> Run:
    """mbarrier.{arrive, arrive_drop}{.expect_tx} state, [barrier]{, number}; mbarrier.expect_tx [barrier], bytes."""
    operands = instruction.operands
    arrives, expects = instruction.parts[1] != "expect_tx", instruction.has("expect_tx")
    drops = instruction.parts[1] == "arrive_drop"
    has_state = not isinstance(instruction.destination, Address)
    write = code.target(instruction.destination, "b64") if has_state else None
    place, *numbers = operands[has_state:]
    keys = _keys(instruction, place, code)
    number = code.source(numbers[0], "u32") if numbers else None

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        barriers, found = machine.family(MBarriers), keys(machine, lanes)
        check_shared(machine, np.array(found), lanes, WIDTH, "read")
        counts = np.ones(len(lanes), np.int64) if number is None else lanes_of(number(machine), lanes, machine)
        phases = np.array(
            [barriers.at(key, int(lane)).phase for key, lane in zip(found, lanes, strict=True)], np.uint64
        )
        for key, lane, value in zip(found, lanes.tolist(), counts.tolist(), strict=True):
            if expects:
                barriers.expect(key, value, lane)
            if arrives:
                barriers.at(key, lane).count -= drops
                barriers.arrive(key, lane, 1 if expects else value)
        if write is not None:
            write(machine, active, machine.spread(phases, lanes))

    return run


def decode_wait(instruction: Instruction, code: Decoder) -> Run:
    """mbarrier.{test_wait, try_wait}{.parity}… p, [barrier], state or parity{, time}."""
    place, phase, *_ = instruction.sources
    write, keys = code.target(instruction.destination, "pred"), _keys(instruction, place, code)
    awaited = code.source(phase, "b32" if instruction.has("parity") else "b64")

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        barriers, found = machine.family(MBarriers), keys(machine, lanes)
        check_shared(machine, np.array(found), lanes, WIDTH, "read")
        parities = (lanes_of(awaited(machine), lanes, machine) & 1).tolist()
        looks: dict[tuple[Key, int], list[int]] = {}
        for key, parity, lane in zip(found, parities, lanes.tolist(), strict=True):
            looks.setdefault((key, parity), []).append(lane)
        over = {
            (key, parity): barriers.has_ended(key, chosen[0], parity, {lane // WARP for lane in chosen})
            for (key, parity), chosen in looks.items()
        }
        ended = np.array([over[look] for look in zip(found, parities, strict=True)])
        for key, warp in set(zip(np.array(found)[ended].tolist(), machine.warp[lanes[ended]].tolist(), strict=True)):
            machine.clocks.join([warp], barriers.barriers[key].ended)
        write(machine, active, machine.spread(ended, lanes))

    return run


HANDLERS: Handlers = {
    "mbarrier.init": decode_init,
    "mbarrier.inval": decode_invalidate,
    "mbarrier.arrive": decode_arrive,
    "mbarrier.arrive_drop": decode_arrive,
    "mbarrier.expect_tx": decode_arrive,
    "mbarrier.test_wait": decode_wait,
    "mbarrier.try_wait": decode_wait,
}
