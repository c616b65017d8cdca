"""Instructions that make tensor maps on the device.

tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0x1, %r2;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
"""

from __future__ import annotations

import numpy as np

from tilewright.backends.ptxsim.accesses import lanes_of, nothing, store
from tilewright.backends.ptxsim.bulk_operands import AcquiredMaps
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.spaces import space_of
from tilewright.backends.ptxsim.tensor_maps import FIELDS, SIZE
from tilewright.backends.ptxsim.value_types import Mask
from tilewright.backends.ptxsim.warp_registers import read_rows
from tilewright.support.ptx_syntax import Instruction

_NUMBERED = ("box_dim", "element_stride", "global_dim", "global_stride")


def decode_replace(instruction: Instruction, code: Decoder) -> Run:
    """tensormap.replace.tile.field… [map]{, which}, value."""
    field = instruction.parts[3]
    start, width, count = FIELDS[field]
    space = space_of(instruction.parts)
    place, *numbers, new = instruction.operands
    address = code.address(place)
    which = code.source(numbers[0], "u32") if field in _NUMBERED else None
    value = code.source(new, "b64" if width == 8 else "b32")

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        numbers = np.zeros(1, np.int64) if which is None else which(machine).astype(np.int64)
        if (numbers >= count).any():
            machine.fail("tensor map", f"{field} has {count} numbers", int(lanes[0]))
        places = lanes_of(address(machine), lanes, machine) + start + width * lanes_of(numbers, lanes, machine)
        values = lanes_of(value(machine), lanes, machine).astype(f"u{width}")
        store(machine, space, places, lanes, width, [values])

    return run


def decode_copy(instruction: Instruction, code: Decoder) -> Run:
    """tensormap.cp_fenceproxy: a warp copies a map from shared to global memory."""
    target, origin, *_ = instruction.operands
    to, source = code.address(target), code.address(origin)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.whole_warps(active) * WARP
        rows = read_rows(machine, lanes_of(source(machine), lanes, machine), lanes, SIZE)
        words = np.ascontiguousarray(rows).view(np.uint64)
        first = lanes_of(to(machine), lanes, machine)
        for number in range(SIZE // 8):
            store(machine, "global", first + 8 * number, lanes, 8, [words[:, number]])

    return run


def decode_acquire(instruction: Instruction, code: Decoder) -> Run:
    """fence.proxy.tensormap::generic.acquire…: the CTA's copies find the map that others have stored."""
    address = code.address(instruction.destination)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        machine.family(AcquiredMaps).acquire(machine, lanes, lanes_of(address(machine), lanes, machine))

    return run


def decode_fence(instruction: Instruction, code: Decoder) -> Run:
    acquires = instruction.has("acquire")
    return decode_acquire(instruction, code) if acquires else nothing(instruction, code)


HANDLERS: Handlers = {
    "tensormap.replace": decode_replace,
    "tensormap.cp_fenceproxy": decode_copy,
    "fence.proxy.tensormap::generic": decode_fence,
}
