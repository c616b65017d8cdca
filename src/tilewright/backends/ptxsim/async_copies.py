"""Copies of single threads to shared memory (`cp.async`, `st.async`), which land when they are waited for.

    cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;      cp.async.commit_group;      cp.async.wait_group 2;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];

The source is read when the copy is issued; bytes beyond the size operand are zero. Until a wait covers the copy, its
destination bytes belong to it, and any access to them is a race.

    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r1], {%r2, %r3}, [%r4];

The same holds for a store to the memory of a CTA of the cluster until the mbarrier there, which counts its bytes,
completes the phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.backends.ptxsim.accesses import (
    check_shared,
    engine_has_written,
    engine_writes,
    lanes_of,
    locate_shared,
    watch_load,
)
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read, command, items_of
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.mbarriers import MBarriers, located_barriers
from tilewright.backends.ptxsim.memory import INITIALISED, VALID
from tilewright.backends.ptxsim.value_types import TYPES, Array, Mask
from tilewright.support.ptx_syntax import Instruction, number_of


@dataclass(eq=False)
class Copy:
    """Copies that one instruction has issued.

    Attributes:
        lanes: the lanes that issued them.
        index: bytes of shared memory: (lane, byte).
        content: the bytes that will stand there.
        group: per lane of `lanes`, the number of its group.
        landed: per lane of `lanes`.
    """

    lanes: Array
    index: Array
    content: Array
    group: Array
    landed: Array


class AsyncCopies:
    """The copies in flight of all lanes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flying: list[Copy] = []
        self.open_group = np.zeros(machine.lanes, np.int64)

    def issue(self, lanes: Array, index: Array, content: Array) -> None:
        """Lanes issue copies, which have been checked."""
        self.machine.shared.hold_for_write(index.ravel(), content.ravel())
        group = self.open_group[lanes]
        self.flying.append(Copy(lanes, index, content, group, np.zeros(len(lanes), bool)))

    def land(self, lanes: Array, first_kept: Array, time: int | None = None) -> None:
        """Land the copies of lanes whose group is below `first_kept`, a number for each lane of the machine."""
        waiting = np.zeros(self.machine.lanes, bool)
        waiting[lanes] = True
        for copy in self.flying:
            done = waiting[copy.lanes] & (copy.group < first_kept[copy.lanes]) & ~copy.landed
            if done.any():
                self._store(copy, done, time)
        self.flying = [copy for copy in self.flying if not copy.landed.all()]

    def _store(self, copy: Copy, done: Array, time: int | None) -> None:
        machine, index = self.machine, copy.index[done]
        machine.shared.end_write(index.ravel())
        machine.shared.data[index] = copy.content[done]
        warps = np.repeat(machine.warp[copy.lanes[done]], index.shape[1])
        machine.shared.note_write(index.ravel(), warps, time)
        machine.changes += 1
        copy.landed |= done


def decode_copy(instruction: Instruction, code: Decoder) -> Run:
    """cp.async.{ca, cg}.shared.global [to], [from], bytes{, bytes of the source | ignore it}{, policy}."""
    target, origin, copied, *rest = instruction.operands
    to, source, width = code.address(target), code.address(origin), number_of(copied)
    hinted = any("cache_hint" in part for part in instruction.parts)
    size = code.source(rest[0], "u32") if len(rest) > hinted else None

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        index = locate_shared(machine, lanes_of(to(machine), lanes, machine), lanes, width, "asynchronous copy")
        check_shared(machine, index, lanes, width, "write")
        content = _content(machine, lanes_of(source(machine), lanes, machine), lanes, width, size)
        machine.family(AsyncCopies).issue(lanes, index[:, None] + np.arange(width), content)

    return run


def _content(machine: Machine, addresses: Array, lanes: Array, width: int, size: Read | None) -> Array:
    """The bytes to copy: (lane, byte); bytes that are not read are zero, and their addresses are not looked at."""
    byte = np.arange(width)
    read = np.full(len(lanes), width) if size is None else lanes_of(size(machine), lanes, machine).astype(np.int64)
    if (read > width).any():
        lane = int(lanes[(read > width).argmax()])
        machine.fail("out of bounds", f"the copy reads more than the {width} bytes that it writes", lane)
    some = read > 0
    memory, offsets = machine.memory, machine.memory.offsets(addresses)
    machine.check(memory.fault(offsets[read == width], width, "load", needs=VALID | INITIALISED), lanes[read == width])
    watch_load(machine, offsets[read == width], lanes[read == width], width)
    partly = some & (read < width)
    if partly.any():
        inside = byte < read[partly][:, None]
        each = (offsets[partly][:, None] + byte)[inside]
        owners = np.repeat(lanes[partly], inside.sum(axis=1))
        machine.check(memory.fault(each, 1, "load", needs=VALID | INITIALISED), owners)
    content = np.zeros((len(lanes), width), np.uint8)
    taken = byte < read[:, None]
    content[taken] = memory.views[1][(offsets[:, None] + byte)[taken]]
    return content


def commit(machine: Machine, active: Mask) -> None:
    """Make a group of the copies that lanes have issued since the last commit."""
    machine.family(AsyncCopies).open_group[machine.active_lanes(active)] += 1


def decode_wait(instruction: Instruction, code: Decoder) -> Run:
    """cp.async.wait_group n: all but the newest n groups have landed; wait_all: all copies have."""
    kept = next((number_of(operand) for operand in instruction.operands), -1)

    def run(machine: Machine, active: Mask) -> None:
        copies = machine.family(AsyncCopies)
        copies.land(machine.active_lanes(active), copies.open_group - kept)

    return run


def decode_arrive(instruction: Instruction, code: Decoder) -> Run:
    """cp.async.mbarrier.arrive{.noinc}: the mbarrier is signalled when all copies so far have landed."""
    address = code.address(instruction.destination)
    counted = not instruction.has("noinc")

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        barriers, copies = machine.family(MBarriers), machine.family(AsyncCopies)
        issued = copies.open_group.copy()
        for lane, key in zip(lanes, located_barriers(machine, address(machine), lanes), strict=True):
            if counted:
                barriers.at(key, int(lane)).pending += 1
            barriers.arrive_later([key], int(lane), partial(copies.land, np.array([lane]), issued + 1))

    return run


def decode_store(instruction: Instruction, code: Decoder) -> Run:
    """st.async… [address], value or {values}, [mbarrier]."""
    place, given, signalled = instruction.operands
    kind = TYPES[instruction.type]
    address, barrier = code.address(place), code.address(signalled)
    reads = [code.source(item, f"b{kind.bits}") for item in items_of(given)]
    width = kind.bytes * len(reads)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        starts = locate_shared(machine, lanes_of(address(machine), lanes, machine), lanes, width, "store")
        keys = located_barriers(machine, barrier(machine), lanes)
        values = np.stack([lanes_of(read(machine), lanes, machine) for read in reads], axis=1)
        rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), width)
        for lane, start, key, row in zip(lanes.tolist(), starts.tolist(), keys, rows, strict=True):
            if start // machine.shared.stride != key // machine.shared.stride:
                machine.fail("mbarrier", "the store signals an mbarrier of a CTA that its bytes do not go to", lane)
            index = start + np.arange(width)
            engine_writes(machine, index, row, lane)
            land = partial(engine_has_written, machine, index, row, lane)
            machine.family(MBarriers).bytes_later(key, lane, width, land)

    return run


HANDLERS: Handlers = {
    "st.async": decode_store,
    "cp.async": decode_copy,
    "cp.async.commit_group": command(commit),
    "cp.async.wait_group": decode_wait,
    "cp.async.wait_all": decode_wait,
    "cp.async.mbarrier": decode_arrive,
}
