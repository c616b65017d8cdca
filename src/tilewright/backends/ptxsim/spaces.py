"""State spaces: what an address in one of them stands for.

A generic address is a number of one's own choice per space: global addresses as they are; the others begin at a
window of their own, as on hardware. `split` groups lanes by the space that their generic addresses lie in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.memory import BASE, INITIALISED, VALID, Fault
from tilewright.backends.ptxsim.value_types import Array

WINDOWS = {"shared": 0x7000_0000_0000, "param": 0x7100_0000_0000, "local": 0x7200_0000_0000}
"""The first generic address of each space."""
WINDOW_SIZE = 1 << 32


def space_of(parts: tuple[str, ...]) -> str:
    """The space an instruction names: `global`, `shared`, `local`, `param`; "" for generic addresses."""
    for part in parts[1:]:
        name = part.split("::")[0]
        if name in ("global", "shared", "local", "param"):
            return name
        if name == "const":
            return "global"
    return ""


def split(addresses: Array) -> Iterator[tuple[str, Array, Array]]:
    """Per space: its name, which of the generic addresses lie there, and their addresses in it."""
    left = np.ones(len(addresses), bool)
    for name, start in WINDOWS.items():
        inside = (addresses >= start) & (addresses < start + WINDOW_SIZE)
        if inside.any():
            left &= ~inside
            chosen = np.flatnonzero(inside)
            yield name, chosen, addresses[chosen] - start
    if left.all():
        yield "global", np.arange(len(addresses)), addresses
    elif left.any():
        chosen = np.flatnonzero(left)
        yield "global", chosen, addresses[chosen]


def place_of(address: int) -> tuple[str, int]:
    """The space and the address in it of one generic address."""
    for name, start in WINDOWS.items():
        if start <= address < start + WINDOW_SIZE:
            return name, address - start
    return "global", address


def generic_bytes(machine: Machine, address: int, size: int, lane: int) -> bytes:
    """The bytes that one lane would read at a generic address; for reports, not for instructions.

    Raises:
        SimulationError: nothing is there.
    """
    space, offset = place_of(address)
    if space == "local":
        start = lane * machine.frame_stride + offset
        return bytes(machine.frame[1][start : start + size].tobytes())
    if space == "shared":
        start = int(machine.shared.base(machine.cta[lane])) + offset
        return bytes(machine.shared.data[start : start + size].tobytes())
    if space == "param":
        return bytes(machine.parameters[offset : offset + size].tobytes())
    fault = machine.memory.fault(np.array([offset - BASE]), 1, "load", needs=VALID | INITIALISED)
    if fault is not None:
        machine.fail(fault.kind, fault.text, lane)
    return bytes(machine.memory.bytes_at(offset, size).tobytes())


def frame_fault(machine: Machine, addresses: Array, width: int, what: str) -> Fault | None:
    """The fault of accesses to local memory; None if they are good."""
    wrong = (addresses < 0) | (addresses + width > machine.code.frame)
    if wrong.any():
        index = int(wrong.argmax())
        size = machine.code.frame
        text = f"{what} of {width} bytes at local address {int(addresses[index]):#x}; the thread has {size} bytes"
        return Fault("out of bounds", text, index)
    if width > 1 and (addresses & (width - 1)).any():
        index = int(((addresses & (width - 1)) != 0).argmax())
        return Fault(
            "misaligned address", f"{what} of {width} bytes at local address {int(addresses[index]):#x}", index
        )
    return None
