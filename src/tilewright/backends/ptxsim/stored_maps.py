"""Tensor maps that kernels make in global memory.

    tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0x1, %r2;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;

A map that the kernel has stored itself must be acquired by `fence.proxy.tensormap` before it is used. A copy may read
its map until a wait covers the copy; until then no other map may be stored there.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tilewright.backends.ptxsim.accesses import generic_bytes, lanes_of, nothing, place_of, space_of, store
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.memory import WRITTEN
from tilewright.backends.ptxsim.mma import read_rows
from tilewright.backends.ptxsim.tensor_maps import FIELDS, SIZE, MapError, TensorMap, decode
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction


class StoredMaps:
    """The maps in global memory.

    Attributes:
        acquired: the CTAs, with the addresses of the maps that they have acquired since the kernel stored them.
        readers: how many copies under way read the map at an address.
    """

    def __init__(self, machine: Machine) -> None:
        self.acquired: set[tuple[int, int]] = set()
        self.readers: Counter[int] = Counter()

    def acquire(self, machine: Machine, lanes: Array, addresses: Array) -> None:
        self.acquired |= set(zip(machine.cta[lanes].tolist(), addresses.tolist(), strict=True))

    def overwrite(self, machine: Machine, lanes: Array, addresses: Array) -> None:
        """Check that no copy still reads the maps at `addresses`; the new ones are to be acquired again."""
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            if machine.checks and self.readers[address] > 0:
                machine.fail("race", "a copy that nobody has waited for reads the tensor map there", lane)
        stored = set(addresses.tolist())
        self.acquired = {(cta, address) for cta, address in self.acquired if address not in stored}


def tensor_map(machine: Machine, address: int, lane: int) -> TensorMap:
    """The map at a generic address.

    Raises:
        SimulationError: it is none, or the kernel has stored it without an acquire.
    """
    if address % 64:
        machine.fail("misaligned address", f"a tensor map at {address:#x}, no multiple of 64", lane)
    raw = generic_bytes(machine, address, SIZE, lane)
    space, offset = place_of(address)
    places = machine.memory.offsets(offset + np.arange(SIZE))
    if space == "global" and (machine.memory.state[1][places] & WRITTEN).any():
        acquired = machine.family(StoredMaps).acquired
        if machine.checks and (int(machine.cta[lane]), address) not in acquired:
            machine.fail("race", "the kernel has stored this tensor map, with no fence.proxy.tensormap behind", lane)
    try:
        return decode(raw)
    except MapError as error:
        machine.fail("tensor map", str(error), lane)


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


def decode_map_copy(instruction: Instruction, code: Decoder) -> Run:
    """tensormap.cp_fenceproxy: a warp copies a map from shared to global memory."""
    target, origin, *_ = instruction.operands
    to, source = code.address(target), code.address(origin)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.whole_warps(active) * WARP
        rows = read_rows(machine, lanes_of(source(machine), lanes, machine), lanes, SIZE)
        words = np.ascontiguousarray(rows).view(np.uint64)
        first = lanes_of(to(machine), lanes, machine)
        machine.family(StoredMaps).overwrite(machine, lanes, first)
        for number in range(SIZE // 8):
            store(machine, "global", first + 8 * number, lanes, 8, [words[:, number]])

    return run


def decode_acquire(instruction: Instruction, code: Decoder) -> Run:
    """fence.proxy.tensormap::generic.acquire…: the CTA's copies find the map that others have stored."""
    address = code.address(instruction.destination)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        machine.family(StoredMaps).acquire(machine, lanes, lanes_of(address(machine), lanes, machine))

    return run


def decode_fence(instruction: Instruction, code: Decoder) -> Run:
    acquires = instruction.has("acquire")
    return decode_acquire(instruction, code) if acquires else nothing(instruction, code)


HANDLERS: Handlers = {
    "tensormap.replace": decode_replace,
    "tensormap.cp_fenceproxy": decode_map_copy,
    "fence.proxy.tensormap::generic": decode_fence,
}
