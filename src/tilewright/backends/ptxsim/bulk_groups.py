"""Groups of bulk copies out of shared memory: the bytes that they still read and still write.

    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;      the buffers may change
    cp.async.bulk.wait_group 0;           and the written bytes may be read by all that are ordered after this wait

A buffer is in use from the copy until either wait covers it, and a CTA must not end before. The written bytes are in
global memory at once, but until the second wait, or the end of the launch, they may only be accessed by reducing
copies, or by copies that write the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.backends.ptxsim.accesses import engine_has_read
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, command
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.memory import COMBINED, SETTLED, WAIT_FOR_WRITES
from tilewright.backends.ptxsim.shadow import GlobalShadow
from tilewright.backends.ptxsim.stored_maps import StoredMaps
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction, number_of


@dataclass(eq=False)
class Store:
    """A copy out of shared memory that no wait has covered.

    Attributes:
        lane: the thread that has started it.
        group: the number of its group among those of the lane.
        index: the bytes of shared memory that it reads; none: it has read them.
        offsets: the bytes of the heap that it writes.
        combines: whether it combines with what stands there.
        map: the address of the map that says where they are; 0: there is none.
    """

    lane: int
    group: int
    index: Array
    offsets: Array
    combines: bool
    map: int


class BulkGroups:
    """The copies out of shared memory of all lanes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flying: list[Store] = []
        self._written_later: list[Store] = []
        self._open_group = np.zeros(machine.lanes, np.int64)
        machine.at_exit.append(self.left)

    def start(self, index: Array, offsets: Array, content: Array, lane: int, *, combines: bool, map: int) -> None:
        """Note a copy of the bytes `index` of shared memory, which writes `content` at `offsets` of the heap."""
        self.flying.append(Store(lane, int(self._open_group[lane]), index, offsets, combines, map))
        self.machine.family(StoredMaps).readers[map] += 1
        watcher = self.machine.watcher
        if watcher is not None:
            self._check_copies(offsets, content, lane, combines=combines)
            self._check_others(watcher, offsets, content, lane, combines=combines)
            self.machine.memory.unsettle(offsets, combined=combines)

    def _check_copies(self, offsets: Array, content: Array, lane: int, *, combines: bool) -> None:
        """Refuse a copy to what another one still writes, unless both combine, or write the same."""
        memory = self.machine.memory
        state = memory.state[1][offsets]
        harmless = state & COMBINED != 0 if combines else memory.views[1][offsets] == content
        if ((state & SETTLED == 0) & ~harmless).any():
            text = f"bulk copy to what another one still writes, and nothing orders them; {WAIT_FOR_WRITES}"
            self.machine.fail("race", text, lane)

    def _check_others(
        self, watcher: GlobalShadow, offsets: Array, content: Array, lane: int, *, combines: bool
    ) -> None:
        """Refuse a copy to what other threads have loaded or stored, with nothing that orders them."""
        changes = self.machine.memory.views[1][offsets] != content
        first = np.flatnonzero(watcher.begins(offsets))
        wrong = _note(self.machine, watcher, offsets[first], lane, combines=combines)
        if not combines and first.size and (wrong & np.logical_or.reduceat(changes, first)).any():
            text = "bulk copy to where another CTA or warp has loaded or stored, with nothing that orders them"
            self.machine.fail("race", text, lane)

    def commit(self, lanes: Array) -> None:
        """All copies that lanes have started so far are in groups that are complete."""
        self._open_group[lanes] += 1

    def wait(self, lanes: Array, kept: int, *, read_only: bool) -> None:
        """All but the newest groups of lanes have been read, and without `read_only` also written."""
        waiting = set(lanes.tolist())
        for copy in [copy for copy in self.flying if self._is_covered(copy, waiting, kept)]:
            engine_has_read(self.machine, copy.index, np.array([self.machine.warp[copy.lane]]))
            self.machine.family(StoredMaps).readers[copy.map] -= 1
            self.flying.remove(copy)
            self._written_later.append(copy)
        if not read_only:
            self._settle([copy for copy in self._written_later if self._is_covered(copy, waiting, kept)])

    def _is_covered(self, copy: Store, waiting: set[int], kept: int) -> bool:
        return copy.lane in waiting and copy.group < self._open_group[copy.lane] - kept

    def _settle(self, copies: list[Store]) -> None:
        """Copies have written: what is left to others stays theirs."""
        memory, watcher = self.machine.memory, self.machine.watcher
        self._written_later = [copy for copy in self._written_later if copy not in copies]
        if watcher is None or not copies:
            return
        for copy in copies:
            memory.settle(copy.offsets)
            begins = copy.offsets[watcher.begins(copy.offsets)]
            _note(self.machine, watcher, begins, copy.lane, combines=copy.combines)
        for copy in (*self._written_later, *self.flying):
            memory.unsettle(copy.offsets, combined=copy.combines)

    def left(self, ended: Array) -> None:
        """Lanes have ended: once a CTA is gone its shared memory is, too."""
        machine = self.machine
        for copy in self.flying:
            cta = machine.cta[copy.lane]
            if ended[machine.cta == cta].any() and not machine.alive[machine.cta == cta].any():
                machine.fail("race", "the CTA ends while a bulk copy still reads its shared memory", copy.lane)


def _note(machine: Machine, watcher: GlobalShadow, begins: Array, lane: int, *, combines: bool) -> Array:
    """Note that a lane writes the units that begin at some offsets; returns which of them race."""
    who = machine.accessors(np.full(len(begins), lane))
    return (watcher.atomic if combines else watcher.store)(begins, watcher.unit, who)


def commit(machine: Machine, active: Mask) -> None:
    machine.family(BulkGroups).commit(machine.active_lanes(active))


def decode_wait(instruction: Instruction, code: Decoder) -> Run:
    (kept,) = map(number_of, instruction.operands)
    read_only = instruction.has("read")

    def run(machine: Machine, active: Mask) -> None:
        machine.family(BulkGroups).wait(machine.active_lanes(active), kept, read_only=read_only)

    return run


HANDLERS: Handlers = {"cp.async.bulk.commit_group": command(commit), "cp.async.bulk.wait_group": decode_wait}
