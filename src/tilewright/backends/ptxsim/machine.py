"""The machine: all threads of a batch of CTAs as lanes of NumPy vectors, and the scheduler.

Lanes at the same step run it together. After a divergent branch the group at the lowest step runs first, so that lanes
reconverge where the program's branches join. A group that polls memory in a loop (a spin lock, an mbarrier) is
interrupted from time to time to let other warps run. `bar.sync` suspends lanes until the others have arrived.

A register is one array over all lanes; arrays are never changed in place, so `mov` may share them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from tilewright.backends.ptxsim.code import KernelCode, Step
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.memory import DeviceMemory, Fault
from tilewright.backends.ptxsim.shadow import Accessors, Clocks, GlobalShadow
from tilewright.backends.ptxsim.shared import NAMED, WINDOW_BITS, SharedMemory, Uninitialized
from tilewright.backends.ptxsim.uninitialized import UninitializedRegisters
from tilewright.backends.ptxsim.value_types import UNSIGNED, Array, Mask
from tilewright.backends.ptxsim.waiting import Explain, who_waits

WARP = 32
PATIENCE = 4
"""Max polls of a group before others run."""
STALLED = 50
"""Max unsuccessful polls per group, on average, before they count as a deadlock: nothing else changes memory."""
Extents = tuple[int, int, int]
Follow: TypeAlias = Callable[[Step, Mask], None]
_State = TypeVar("_State")


class Machine:
    """One batch of CTAs of one launch.

    Args:
        symbols: addresses of variables of the module.
        parameters: the bytes of the parameter space.
        grid, block, cluster: extents of the launch.
        ctas: the coordinates of this batch's CTAs; whole clusters side by side.
        pending: the CTAs of each cluster of later batches; who takes one out does its work.
        shared: bytes of shared memory per CTA, static ones included.
        checks: watch for races.
        uninitialized: how to treat reads of uninitialised shared memory.
        watcher: watches global memory, for all batches of a launch; None: it is not watched.
        time: of the clocks, to begin with.
        output: where text that the kernel prints goes.

    Attributes:
        lanes: threads of the batch; every CTA is filled up to whole warps with lanes that are not `alive`.
        registers: one array over all lanes per register.
        warp, cta: per lane the warp and the CTA, both counted through the batch.
        windows: per lane the address, as clusters have them, where its CTA's shared memory begins.
        alive: per lane, does it still run?
        instruction: the one that runs now, for messages.
        followed, follow: `follow` is called for each step that accesses these registers, with the lanes.
    """

    def __init__(
        self,
        code: KernelCode,
        memory: DeviceMemory,
        *,
        symbols: dict[str, int],
        parameters: Array,
        grid: Extents,
        block: Extents,
        cluster: Extents,
        ctas: Sequence[Extents],
        pending: deque[list[Extents]],
        shared: int,
        checks: bool,
        uninitialized: Uninitialized,
        watcher: GlobalShadow | None,
        time: int,
        output: Callable[[str], None],
    ) -> None:
        self.code, self.memory, self.symbols, self.parameters = code, memory, symbols, parameters
        self.grid, self.block, self.cluster, self.output, self.checks = grid, block, cluster, output, checks
        self.pending = pending
        self.threads = prod(block)
        self.warps_per_cta = -(-self.threads // WARP)
        self.padded = self.warps_per_cta * WARP
        self.ctas = np.array(ctas, np.uint32).reshape(-1, 3)
        self.lanes = self.padded * len(self.ctas)
        self.warps = self.lanes // WARP
        everyone = np.arange(self.lanes)
        self.everyone, self.warp, self.cta = everyone, everyone // WARP, everyone // self.padded
        self.cluster_size = prod(cluster)
        self.windows = self.cta % self.cluster_size << WINDOW_BITS | NAMED
        self.alive = everyone % self.padded < self.threads
        self.clocks = Clocks(self.warps, self.warps_per_cta * self.cluster_size, time)
        self.watcher = watcher
        self._uninitialized = UninitializedRegisters(code, self.lanes if checks else 0)
        self._unset = self._uninitialized.unset if checks else {}
        x, y, z = self.ctas.astype(np.int64).T
        self._numbers = 1 + x + grid[0] * (y + grid[1] * z)
        self.shared = SharedMemory(
            len(self.ctas), shared, unit=code.shared_unit, cluster=self.cluster_size, clocks=self.clocks, checks=checks,
            uninitialized=uninitialized,
        )  # fmt: skip
        self.frame_stride = -(-code.frame // 16) * 16
        frame = np.zeros(self.lanes * self.frame_stride, np.uint8)
        self.frame: dict[int, Array] = {width: frame.view(f"u{width}") for width in (1, 2, 4, 8)}
        self.registers: list[Array] = [np.zeros(self.lanes, UNSIGNED[bits]) for bits in code.registers]
        self.returns: dict[str, Array] = {}
        self._start(code)

    def _start(self, code: KernelCode) -> None:
        """All threads are at the entry, and nothing has run yet."""
        self.groups: dict[int, Mask] = {code.entry: None if self.alive.all() else self.alive.copy()}
        self.parked: dict[int, Array] = {}
        self.at = code.entry
        self.executed = self.changes = self._in_vain = self._polls = 0
        self.polled = False
        self._families: dict[Any, Any] = {}
        self.at_end: list[Callable[[], None]] = []
        self.at_exit: list[Callable[[Array], None]] = []
        self.at_deadlock: list[Explain] = []
        self.followed = frozenset(code.accumulators | code.fragments) if self.checks else frozenset()
        self.follow: Follow | None = None

    # ---- what instruction families use

    def family(self, kind: Callable[[Machine], _State]) -> _State:
        """The state that a family of instructions keeps for this machine: `kind(machine)`, made on first use."""
        found = self._families.get(kind)
        if found is None:
            found = self._families[kind] = kind(self)
        return cast("_State", found)

    def active_lanes(self, active: Mask) -> Array:
        """The indices of the lanes of a mask."""
        return self.everyone if active is None else np.flatnonzero(active)

    def whole_warps(self, active: Mask) -> Array:
        """The indices of the warps of a mask, for instructions that a warp does as one.

        Raises:
            SimulationError: of some warp only a part is here.
        """
        if active is None:
            return np.arange(self.warps)
        here, alive = active.reshape(-1, WARP), self.alive.reshape(-1, WARP)
        some = here.any(axis=1)
        partly = some & (here != alive).any(axis=1)
        if partly.any():
            warp = int(partly.argmax())
            lane = warp * WARP + int((alive[warp] & ~here[warp]).argmax())
            self.fail("divergent warp", "the instruction wants the whole warp, and this thread is elsewhere", lane)
        return np.flatnonzero(some)

    def accessors(self, lanes: Array) -> Accessors:
        """Lanes as those who access global memory."""
        return Accessors(self._numbers[self.cta[lanes]], self.warp[lanes], self.clocks, self.cluster_size)

    def spread(self, values: Array, lanes: Array) -> Array:
        """Values of some lanes as an array over all lanes, for `Write`."""
        if len(lanes) == self.lanes:
            return values
        full = np.zeros(self.lanes, values.dtype)
        full[lanes] = values
        return full

    def fail(self, kind: str, text: str, lane: int | None = None) -> NoReturn:
        """Raise the error with all that is known of the place; `lane` is the first one to blame."""
        raise self.error(kind, text, lane)

    def check(self, fault: Fault | None, lanes: Array) -> None:
        """Raise the error of a fault; its index counts in `lanes`."""
        if fault is not None:
            self.fail(fault.kind, fault.text, int(lanes[fault.index]))

    def refuse(self, fault: Fault | None, lane: int) -> None:
        """Raise the error of a fault, of which `lane` is to blame."""
        if fault is not None:
            self.fail(fault.kind, fault.text, lane)

    def error(self, kind: str, text: str, lane: int | None = None) -> SimulationError:
        """The error to raise at the instruction that runs."""
        instruction = self.code.steps[self.at].instruction if self.at < len(self.code.steps) else None
        thread = cta = None
        if lane is not None:
            thread, cta = self.thread_of(lane), self.cta_of(lane)
        return SimulationError(
            kind,
            text,
            waiting=who_waits(self) if kind == "deadlock" else (),
            line=instruction.line if instruction else 0,
            instruction=instruction.text if instruction else "",
            kernel=self.code.name,
            thread=thread,
            cta=cta,
            source=instruction.source if instruction else None,
        )

    def thread_of(self, lane: int) -> Extents:
        number, (x, y, _) = lane % self.padded, self.block
        return number % x, number // x % y, number // (x * y)

    def cta_of(self, lane: int) -> Extents:
        x, y, z = (int(n) for n in self.ctas[lane // self.padded])
        return x, y, z

    # ---- the scheduler

    def park(self, active: Mask) -> None:
        """Lanes stop at the instruction that runs; `release` lets them go on behind it."""
        mask = np.ones(self.lanes, bool) if active is None else active
        known = self.parked.get(self.at)
        self.parked[self.at] = mask.copy() if known is None else known | mask

    def release(self, lanes: Array) -> None:
        """Let those of the lanes (a mask) that are parked go on."""
        for at, mask in list(self.parked.items()):
            free = mask & lanes
            if free.any():
                self.join(at + 1, free)
                rest = mask & ~lanes
                if rest.any():
                    self.parked[at] = rest
                else:
                    del self.parked[at]

    def join(self, at: int, active: Mask) -> None:
        """Lanes come to a step, where others may stand already."""
        known = self.groups.get(at)
        if known is None or active is None:
            self.groups[at] = active
            return
        merged = known | active
        self.groups[at] = None if merged.all() else merged

    def end(self, active: Mask) -> None:
        """Note that lanes have run to their end."""
        if active is None:
            active = np.ones(self.lanes, bool)
        self.alive = self.alive & ~active
        for note in self.at_exit:
            note(active)

    def run(self) -> None:
        """Run until every thread has ended.

        Raises:
            SimulationError: a check failed, or threads wait for each other.
        """
        with np.errstate(all="ignore"):
            while self.groups:
                self._advance(*self._choose())
        if self.parked:
            self._deadlock()
        for check in self.at_end:
            check()

    def _choose(self) -> tuple[int, Mask]:
        """Take out the lanes to run: those at the lowest step, or others once those have polled for long.

        Lanes of the same warp wait, so that the warp reconverges, unless polling has been unsuccessful.
        """
        lowest = min(self.groups)
        if self._polls < PATIENCE or len(self.groups) == 1:
            return lowest, self.groups.pop(lowest)
        order = sorted(self.groups)
        at = order[self._polls // PATIENCE % len(order)]
        mask = self.groups[at]
        if at == lowest or mask is None or self._in_vain >= PATIENCE:
            return at, self.groups.pop(at)
        after = np.zeros(self.warps, bool)
        for other in order[: order.index(at)]:
            after |= np.reshape(self.groups[other], (-1, WARP)).any(axis=1)
        free = mask & ~np.repeat(after, WARP)
        if not free.any():
            return lowest, self.groups.pop(lowest)
        if (free == mask).all():
            return at, self.groups.pop(at)
        self.groups[at] = mask & ~free
        return at, free

    def _deadlock(self) -> NoReturn:
        self.at = min(self.parked)
        lane = int(self.parked[self.at].argmax())
        places = sorted({self.code.steps[at].instruction.line for at in self.parked})
        lines = ", ".join(str(line) for line in places)
        self.fail("deadlock", f"threads wait for others that never come, at PTX line {lines}", lane)

    def _advance(self, at: int, active: Mask) -> None:
        """Run lanes from a step on until they branch, or join others."""
        steps, registers, unset = self.code.steps, self.registers, self._unset
        reconvergence = min((other for other in self.groups if other > at), default=-1)
        while at != reconvergence:
            step = steps[at]
            self.at = at
            self.executed += 1
            doing = active
            watched = unset and not unset.keys().isdisjoint(step.touches)
            if step.guard >= 0:
                doing = registers[step.guard]
                if step.negated:
                    doing = ~doing
                if active is not None:
                    doing = doing & active
                if watched:
                    self._refuse_unset(step, active, doing)
                if not doing.any():
                    at += 1
                    continue
                if active is None and doing.all():
                    doing = None
            if watched:
                self._refuse_unset(step, active, doing)
                self._uninitialized.follow(step, doing, registers)
            if self.follow is not None and not self.followed.isdisjoint(step.touches):
                self.follow(step, doing)
            moves = step.run(self, doing)
            if moves is None:
                at += 1
                continue
            self._move(at, active, doing, moves)
            return
        self.join(at, active)

    def _refuse_unset(self, step: Step, active: Mask, doing: Mask) -> None:
        mistake = self._uninitialized.mistake(step, active, doing)
        if mistake is not None:
            self.fail("uninitialised register", *mistake)

    def _move(self, at: int, active: Mask, doing: Mask, moves: list[tuple[int, Mask]]) -> None:
        if doing is not None and doing is not active:
            rest = ~doing if active is None else active & ~doing
            if rest.any():
                self.join(at + 1, rest)
        for target, lanes in moves:
            self.join(target, lanes)
            if target <= at:
                self._note_loop()

    def _note_loop(self) -> None:
        """Record a backward branch, and fail if loops only poll memory that no longer changes."""
        if not self.polled:
            self._polls = 0
            return
        self.polled = False
        self._polls += 1
        if self.changes:
            self.changes = self._in_vain = 0
            return
        self._in_vain += 1
        if self._in_vain > STALLED * len(self.groups):
            self.fail("deadlock", "threads poll memory that nobody changes any more", self._somebody())

    def _somebody(self) -> int | None:
        masks = [mask for mask in self.groups.values() if mask is not None]
        return int(masks[0].argmax()) if masks else 0
