"""Shared memory as asynchronous engines read and write it: bulk copies, wgmma and tcgen05.

    index = engine_reads(machine, index, warps, lane)      # checked, and in use until `engine_has_read`
    engine_writes(machine, index, lane)                    # checked, and pending until `engine_has_written`

Engines go another way to memory than threads do (another proxy): what threads store must be fenced by
`fence.proxy.async` before an engine may read it.
"""

from __future__ import annotations

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.memory import Fault
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction


def engine_reads(machine: Machine, index: Array, warps: Array, lane: int) -> None:
    """An engine begins to read bytes for warps: check, and hold them.

    Raises:
        SimulationError: a byte has no value, is not fenced, or races with another access.
    """
    _refuse(machine, machine.shared.engine_read(index, warps), lane)
    machine.shared.hold_for_read(index)


def engine_has_read(machine: Machine, index: Array, warps: Array, time: int | None = None) -> None:
    """The engine has read the bytes, and warps have waited for it: now, or who waits knows them up to this time."""
    machine.shared.end_read(index)
    machine.shared.note_read_by_all(index, warps, time)


def engine_writes(machine: Machine, index: Array, lane: int) -> None:
    """An engine begins to write bytes for a lane: check, and hold them.

    Raises:
        SimulationError: another access is not ordered before.
    """
    _refuse(machine, machine.shared.write(index, np.full(len(index), machine.warp[lane])), lane)
    machine.shared.hold_for_write(index)


def engine_has_written(machine: Machine, index: Array, content: Array, lane: int, time: int) -> None:
    """The bytes have landed; whoever waits for them knows what the lane's warp did up to this time."""
    shared = machine.shared
    shared.end_write(index)
    shared.data[index] = content
    shared.note_write(index, np.full(len(index), machine.warp[lane]), time)
    shared.engine_wrote(index)


def _refuse(machine: Machine, fault: Fault | None, lane: int) -> None:
    if fault is not None:
        machine.fail(fault.kind, fault.text, lane)


def decode_fence(_: Instruction, code: Decoder) -> Run:
    """fence.proxy.async: engines see what the warp knows to be stored."""

    def run(machine: Machine, active: Mask) -> None:
        machine.shared.fence(np.unique(machine.warp[machine.active_lanes(active)]))

    return run


HANDLERS: Handlers = {"fence.proxy.async": decode_fence, "fence.proxy.async::generic": decode_fence}
