"""Registers that warp groups release and request: `setmaxnreg`.

    .maxnreg 168                                    what each thread has at first
    setmaxnreg.dec.sync.aligned.u32 24;             gives back 144 per thread
    setmaxnreg.inc.sync.aligned.u32 240;            waits until there are 72 more per thread

The four warps of a group request the same number, and wait for one another. Kernels without `.maxnreg` keep their
registers, as the assembler drops the instruction.
"""

from __future__ import annotations

import numpy as np

from tilewright.backends.ptxsim.code import Moves, Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction, number_of

GROUP = 4
"""The number of warps of a group."""
MIN_REGISTERS, MAX_REGISTERS, STEP = 24, 256, 8
"""The least and the greatest number of registers that a thread may have, and the step from one to the next."""


class RegisterFile:
    """The registers of all warp groups of a machine, per thread."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        per_cta = -(-machine.warps_per_cta // GROUP)
        warps = np.arange(machine.warps)
        self.group = warps // machine.warps_per_cta * per_cta + warps % machine.warps_per_cta // GROUP
        count = int(self.group[-1]) + 1
        self.cta = np.arange(count) // per_cta
        self.held = np.full(count, machine.code.registers_at_entry)
        self.free = np.zeros(int(self.cta[-1]) + 1, np.int64)
        self.asked: dict[int, int] = {}
        self.came: dict[int, Array] = {}

    def ask(self, lanes: Array, number: int, *, more: bool) -> None:
        """Lanes (a mask), which have been parked, ask for a number of registers."""
        machine = self.machine
        for group in map(int, np.unique(self.group[machine.warp[lanes]])):
            mine = lanes & (self.group[machine.warp] == group)
            held, lane = int(self.held[group]), int(mine.argmax())
            if self.asked.setdefault(group, number) != number:
                text = f"warps of one group ask for {self.asked[group]} and for {number} registers"
                machine.fail("registers", text, lane)
            if (number < held) if more else (number > held):
                text = f"a thread that has {held} registers cannot {'take' if more else 'give back'} up to {number}"
                machine.fail("registers", text, lane)
            self.came[group] = self.came.get(group, np.zeros(machine.lanes, bool)) | mine
        self.settle()

    def settle(self) -> None:
        """Let groups go on whose warps have all come and for which there are registers; first those that give."""
        for group in sorted(self.asked, key=lambda number: self.asked[number] - self.held[number]):
            more, cta = self.asked[group] - int(self.held[group]), self.cta[group]
            members = self.machine.alive & (self.group[self.machine.warp] == group)
            if (members & ~self.came[group]).any() or more > self.free[cta]:
                continue
            self.free[cta] -= more
            self.held[group] = self.asked.pop(group)
            self.machine.release(self.came.pop(group))


def decode_count(instruction: Instruction, code: Decoder) -> Run:
    """setmaxnreg.{inc, dec}.sync.aligned.u32 number."""
    (number,) = map(number_of, instruction.operands)
    more = instruction.has("inc")

    def run(machine: Machine, active: Mask) -> Moves | None:
        if not MIN_REGISTERS <= number <= MAX_REGISTERS or number % STEP:
            machine.fail(
                "registers", f"{number} registers are no multiple of {STEP} from {MIN_REGISTERS} to {MAX_REGISTERS}"
            )
        machine.whole_warps(active)
        if not machine.code.registers_at_entry:
            return None
        lanes = machine.alive if active is None else active
        machine.park(lanes)
        machine.family(RegisterFile).ask(lanes, number, more=more)
        return []

    return run


HANDLERS: Handlers = {"setmaxnreg": decode_count}
