"""The bytes that one copy of the copy engine moves: their places in global and in shared memory.

    read = tensor_operand(operand, code, rows=False)       # [map, {x, y}]
    read(machine, lane)                                    # the map, and the box with these coordinates
    piece = box_piece(map, box, shared_address)
    piece.global_, piece.shared, piece.inside              # one number for each byte

A map that the kernel has stored itself must be acquired by `fence.proxy.tensormap` first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.accesses import lanes_of
from tilewright.backends.ptxsim.decoder import Decoder, Read, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.memory import BASE, WRITTEN
from tilewright.backends.ptxsim.spaces import generic_bytes, place_of
from tilewright.backends.ptxsim.tensor_maps import SIZE, Box, MapError, TensorMap, box_at, decode, fill_bytes
from tilewright.backends.ptxsim.tensor_maps import shared_addresses as addresses_of_box
from tilewright.backends.ptxsim.value_types import Array
from tilewright.support.ptx_syntax import Address, Operand

BOX_ALIGNMENT = 128
PIECE_ALIGNMENT = 16


@dataclass(frozen=True)
class Piece:
    """The bytes that a copy moves, one by one.

    Attributes:
        shared: addresses in shared memory.
        global_: offsets in the heap of global memory.
        inside: which bytes belong to the tensor; the others are filled, and never stored.
        fill: the bytes that stand there instead.
        counted: the bytes that the mbarrier is told of.
        element: the type of the numbers, for reductions.
    """

    shared: Array
    global_: Array
    inside: Array
    fill: Array
    counted: int
    element: str


class AcquiredMaps:
    """The maps in global memory that CTAs have acquired since the kernel stored them."""

    def __init__(self, machine: Machine) -> None:
        self.known: set[tuple[int, int]] = set()

    def acquire(self, machine: Machine, lanes: Array, addresses: Array) -> None:
        self.known |= set(zip(machine.cta[lanes].tolist(), addresses.tolist(), strict=True))


def one(machine: Machine, read: Read, lane: int) -> int:
    """The value of an operand in one lane."""
    return int(lanes_of(read(machine), np.array([lane]), machine)[0])


TensorRead: TypeAlias = Callable[[Machine, int], tuple[TensorMap, Box]]


def tensor_operand(operand: Operand, code: Decoder, *, rows: bool) -> TensorRead:
    """Reads `[map, {x, y, …}]`; with `rows`, the coordinates behind the first are places in dimension 1."""
    if not isinstance(operand, Address):
        raise SimulationError("syntax", f"`{operand}` is no address with coordinates")
    place, *_ = operand.coordinates
    address = code.address(Address(operand.base, operand.offset))
    corner = [code.source(item, "s32") for item in items_of(place)]

    def read(machine: Machine, lane: int) -> tuple[TensorMap, Box]:
        found = tensor_map(machine, one(machine, address, lane), lane)
        at = tuple(one(machine, coordinate, lane) for coordinate in corner)
        if rows:
            return found, box_at(found, (at[0], 0), rows=at[1:])
        if len(at) != len(found.shape):
            text = f"{len(at)} coordinates for a tensor of {len(found.shape)} dimensions"
            machine.fail("tensor map", text, lane)
        return found, box_at(found, at)

    return read


def tensor_map(machine: Machine, address: int, lane: int) -> TensorMap:
    """The map at a generic address.

    Raises:
        SimulationError: it is none, or the kernel has stored it and nobody has acquired it.
    """
    if address % 64:
        machine.fail("misaligned address", f"a tensor map at {address:#x}, no multiple of 64", lane)
    raw = generic_bytes(machine, address, SIZE, lane)
    space, offset = place_of(address)
    if space == "global" and (machine.memory.state[1][offset - BASE : offset - BASE + SIZE] & WRITTEN).any():
        acquired = machine.family(AcquiredMaps).known
        if machine.checks and (int(machine.cta[lane]), address) not in acquired:
            machine.fail("race", "the kernel has stored this tensor map, with no fence.proxy.tensormap behind", lane)
    try:
        return decode(raw)
    except MapError as error:
        machine.fail("tensor map", str(error), lane)


def box_piece(machine: Machine, found: TensorMap, box: Box, start: int, lane: int) -> Piece:
    """The bytes of a box that lies at a shared address."""
    if start % BOX_ALIGNMENT:
        text = f"a box at shared address {start:#x}, no multiple of {BOX_ALIGNMENT}"
        machine.fail("misaligned address", text, lane)
    byte = np.arange(box.size)
    return Piece(
        shared=addresses_of_box(box, start, found.swizzle).ravel(),
        global_=(box.global_[:, None] + byte - BASE).ravel(),
        inside=np.repeat(box.inside, box.size),
        fill=np.tile(fill_bytes(found, box.size), len(box.inside)),
        counted=len(box.inside) * box.size,
        element=found.element,
    )


def plain_piece(machine: Machine, start: int, address: int, size: int, lane: int, *, element: str = "u8") -> Piece:
    """`size` bytes, one after the other in both memories."""
    for what, number in (("shared address", start), ("global address", address), ("size", size)):
        if number % PIECE_ALIGNMENT:
            text = f"a bulk copy's {what} {number:#x} is no multiple of {PIECE_ALIGNMENT}"
            machine.fail("misaligned address", text, lane)
    byte, whole = np.arange(size), np.ones(size, bool)
    return Piece(start + byte, address - BASE + byte, whole, np.zeros(size, np.uint8), size, element)
