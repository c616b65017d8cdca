"""Copies by the copy engine: boxes of tensors, and contiguous blocks of memory.

    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 1024, [%r4];
    cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%rd1, {%r2}], [%r1];

A copy to several CTAs (`.multicast::cluster`) writes the box to the same offset in each of them, and signals the
mbarrier at the same offset; with `.cta_group::2`, the mbarrier of the even or odd CTA of each pair, according to the
address.

A copy into shared memory lands as late as its mbarrier permits (`mbarriers.py`); until then its bytes belong to it. A
copy out of shared memory reads when it is issued, and counts as reading until `bulk_groups.py` ends it. A box that is
loaded may start anywhere, also beyond the tensor's edges, but along the innermost dimension only at multiples of 16
bytes; one that is stored or added may not start before the tensor. On hardware other copies are illegal
instructions (docs/gpu.md says which were observed, and which are assumed). Not simulated: `im2col::w`, and bulk
reductions in shared memory.

Tensor maps can be made on the device (`stored_maps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tilewright.backends.ptxsim.accesses import (
    engine_has_read,
    engine_has_written,
    engine_reads,
    engine_writes,
    lanes_of,
    nothing,
    watch_load,
)
from tilewright.backends.ptxsim.bulk_groups import BulkGroups
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.mbarriers import WIDTH, MBarriers
from tilewright.backends.ptxsim.memory import INITIALISED, VALID, WRITABLE, WRITTEN, Fault
from tilewright.backends.ptxsim.shared import OFFSET
from tilewright.backends.ptxsim.stored_maps import StoredMaps, tensor_map
from tilewright.backends.ptxsim.tensor_maps import (
    BITS,
    Box,
    TensorMap,
    box_at,
    fill_bytes,
    pixels_at,
    rounded,
)
from tilewright.backends.ptxsim.tensor_maps import shared_addresses as addresses_of_box
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Address, Instruction, Operand

BOX_ALIGNMENT = 128
"""The alignment of a box in shared memory, in bytes."""
PIECE_ALIGNMENT = 16
"""The alignment in global memory of a box's innermost start and of a piece, and that of a piece's size, in bytes."""


@dataclass(frozen=True)
class Piece:
    """The bytes that a copy moves, one by one.

    Attributes:
        shared: addresses in shared memory.
        global_: offsets in the heap of global memory.
        inside: which bytes belong to the tensor; the others are filled, and never stored.
        fill: the bytes that stand there instead.
        counted: the bytes that the mbarrier counts.
        element: the type of the numbers, for reductions.
        map: the address of the map that says where they are; 0: there is none.
    """

    shared: Array
    global_: Array
    inside: Array
    fill: Array
    counted: int
    element: str
    map: int = 0


def one(machine: Machine, read: Read, lane: int) -> int:
    """The value of an operand in one lane."""
    return int(lanes_of(read(machine), np.array([lane]), machine)[0])


TensorRead: TypeAlias = Callable[[Machine, int], tuple[int, TensorMap, Box]]
"""The address of a map, the map, and a box of its tensor."""


def tensor_operand(
    operand: Operand, code: Decoder, *, rows: bool, stores: bool, distances: Operand | None = None
) -> TensorRead:
    """Reads `[map, {x, y, …}]`; with `rows`, the coordinates behind the first are places in dimension 1.

    Args:
        stores: whether the box is written to.
        distances: of images, how far the elements are from the pixels.
    """
    if not isinstance(operand, Address):
        raise SimulationError("syntax", f"`{operand}` is no address with coordinates")
    coordinates, *_ = operand.coordinates
    address = code.address(Address(operand.base, operand.offset))
    corner = [code.source(item, "s32") for item in items_of(coordinates)]
    offsets = None if distances is None else [code.source(item, "u16") for item in items_of(distances)]

    def read(machine: Machine, lane: int) -> tuple[int, TensorMap, Box]:
        place = one(machine, address, lane)
        found = tensor_map(machine, place, lane)
        at = tuple(one(machine, coordinate, lane) for coordinate in corner)
        _check_start(machine, found, at[0], lane)
        if stores and min(at) < 0:
            text = f"a box that is stored at {at}, in front of the tensor; store it at 0 or behind, or through pointers"
            machine.fail("out of bounds", text, lane)
        if bool(found.lower) != (offsets is not None):
            machine.fail("tensor map", "a copy of images wants a map of images, and no other copy does", lane)
        if rows:
            return place, found, box_at(found, (at[0], 0), rows=at[1:])
        if len(at) != len(found.shape):
            text = f"{len(at)} coordinates for a tensor of {len(found.shape)} dimensions"
            machine.fail("tensor map", text, lane)
        if offsets is not None:
            return place, found, pixels_at(found, at, tuple(one(machine, offset, lane) for offset in offsets))
        return place, found, box_at(found, at)

    return read


def _check_start(machine: Machine, found: TensorMap, first: int, lane: int) -> None:
    """The innermost coordinate of a box is a multiple of 16 bytes, else hardware takes the copy for no instruction."""
    bits, whole = BITS[found.element], 8 * PIECE_ALIGNMENT
    if first * bits % whole:
        text = (
            f"a box that starts at {first} along the innermost dimension, which of {found.element} is no multiple of "
            f"{PIECE_ALIGNMENT} bytes; let it start at a multiple of {lcm(bits, whole) // bits}, "
            "or use pointers in place of the descriptor"
        )
        machine.fail("misaligned address", text, lane)


def box_piece(machine: Machine, place: int, found: TensorMap, box: Box, start: int, lane: int) -> Piece:
    """The bytes of a box that lies at a shared address; the map `found` is at `place`."""
    if start % BOX_ALIGNMENT:
        text = f"a box at shared address {start:#x}, no multiple of {BOX_ALIGNMENT}"
        machine.fail("misaligned address", text, lane)
    byte = np.arange(box.size)
    return Piece(
        shared=addresses_of_box(box, start, found.swizzle).ravel(),
        global_=machine.memory.offsets(box.global_[:, None] + byte).ravel(),
        inside=np.repeat(box.inside, box.size),
        fill=np.tile(fill_bytes(found, box.size), len(box.inside)),
        counted=len(box.inside) * box.size,
        element=found.element,
        map=place,
    )


def plain_piece(machine: Machine, start: int, address: int, size: int, lane: int, *, element: str = "u8") -> Piece:
    """`size` bytes, one after the other in both memories."""
    for what, number in (("shared address", start), ("global address", address), ("size", size)):
        if number % PIECE_ALIGNMENT:
            text = f"a bulk copy's {what} {number:#x} is no multiple of {PIECE_ALIGNMENT}"
            machine.fail("misaligned address", text, lane)
    byte, whole = np.arange(size), np.ones(size, bool)
    return Piece(start + byte, machine.memory.offsets(address + byte), whole, np.zeros(size, np.uint8), size, element)


Pieces: TypeAlias = Callable[[Machine, int], Piece]

OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, limit: np.where(old >= limit, 0, old + 1).astype(old.dtype),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype),
}
DTYPES: dict[str, Any] = {
    **{f"{kind}{bits}": f"{'i' if kind == 's' else 'u'}{bits // 8}" for kind in "usb" for bits in (8, 16, 32, 64)},
    "f16": np.float16,
    "f32": np.float32,
    "f32ftz": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
}


def _indices(machine: Machine, addresses: Array, cta: int, lane: int) -> Array:
    found = machine.shared.locate(addresses, np.full(len(addresses), cta), 1, "bulk copy")
    if isinstance(found, Fault):
        machine.fail(found.kind, found.text, lane)
    return found


def load_piece(machine: Machine, piece: Piece, lane: int, barrier: int, ctas: dict[int, int]) -> None:
    """Copy from global memory into the shared memory of CTAs; an mbarrier is signalled for each.

    Args:
        barrier: the place of the mbarriers in their CTAs' memory.
        ctas: for each CTA that of the signalled mbarrier.
    """
    memory = machine.memory
    offsets = piece.global_[piece.inside]
    machine.refuse(memory.fault(offsets, 1, "bulk copy", needs=VALID | INITIALISED), lane)
    _watch_load(machine, offsets, lane)
    content = piece.fill.copy()
    content[piece.inside] = memory.views[1][offsets]
    content = rounded(piece.element, content)
    for cta, signalled in ctas.items():
        index = _indices(machine, machine.shared.address(piece.shared, cta), cta, lane)
        engine_writes(machine, index, content, lane)
        key = int(_indices(machine, machine.shared.address(np.array([barrier]), signalled), signalled, lane)[0])
        fault = machine.shared.look(key + np.arange(WIDTH), np.full(WIDTH, machine.warp[lane]))
        if fault is not None:
            machine.fail(fault.kind, f"the mbarrier: {fault.text}", lane)
        machine.family(StoredMaps).readers[piece.map] += 1
        land = partial(_land_piece, machine, piece.map, index, content, lane)
        machine.family(MBarriers).bytes_later(key, lane, piece.counted, land)


def _watch_load(machine: Machine, offsets: Array, lane: int) -> None:
    """Refuse a copy of what other threads have stored, with nothing that orders them."""
    watcher = machine.watcher
    if watcher is not None:
        begins = offsets[watcher.begins(offsets)]
        watch_load(machine, begins, np.full(len(begins), lane), watcher.unit)


def _land_piece(machine: Machine, map: int, index: Array, content: Array, lane: int, time: int) -> None:
    machine.family(StoredMaps).readers[map] -= 1
    engine_has_written(machine, index, content, lane, time)


def store_piece(machine: Machine, piece: Piece, lane: int, operation: str) -> None:
    """Copy from the CTA's shared memory to global memory, or combine with what stands there."""
    memory, inside = machine.memory, piece.inside
    index = _indices(machine, piece.shared, int(machine.cta[lane]), lane)
    engine_reads(machine, index, np.array([machine.warp[lane]]), lane)
    needs = VALID | WRITABLE | (INITIALISED if operation else 0)
    offsets = piece.global_[inside]
    machine.refuse(memory.fault(offsets, 1, "bulk copy", needs=needs, settled=False), lane)
    content = machine.shared.data[index[inside]]
    if operation:
        dtype = DTYPES[piece.element]
        old = memory.views[1][offsets].view(dtype)
        content = np.ascontiguousarray(OPERATIONS[operation](old, content.view(dtype))).view(np.uint8)
    machine.family(BulkGroups).start(index, offsets, content, lane, combines=bool(operation), map=piece.map)
    memory.views[1][offsets] = content
    memory.state[1][offsets] |= INITIALISED | WRITTEN
    machine.changes += 1


def _spaces(instruction: Instruction) -> tuple[str, str]:
    """The space that a copy goes to, and the one that it comes from."""
    found = [part.split("::")[0] for part in instruction.parts if part.split("::")[0] in ("shared", "global")]
    return found[0], found[1]


def decode_copy(instruction: Instruction, code: Decoder) -> Run:
    """cp.async.bulk… and cp.reduce.async.bulk…"""
    to, source = _spaces(instruction)
    if any(part.startswith("im2col") and (part != "im2col" or to != "shared") for part in instruction.parts):
        raise SimulationError("unsupported", "im2col copies to global memory, or with ::w, are not simulated")
    if to == source:
        return _decode_between_ctas(instruction, code)
    return _decode_load(instruction, code) if to == "shared" else _decode_store(instruction, code)


def _pieces(instruction: Instruction, code: Decoder, *, shared: int, outside: int) -> Pieces:
    """The pieces that the instruction copies; `shared` and `outside` are the numbers of the operands."""
    start = code.address(instruction.operands[shared])
    if instruction.has("tensor"):
        rows = any(part in ("tile::gather4", "tile::scatter4") for part in instruction.parts)
        _, _, _, distances, *_ = instruction.operands if instruction.has("im2col") else [None] * 4
        stores = outside == 0
        read = tensor_operand(instruction.operands[outside], code, rows=rows, stores=stores, distances=distances)

        def boxes(machine: Machine, lane: int) -> Piece:
            return box_piece(machine, *read(machine, lane), one(machine, start, lane), lane)

        return boxes
    _, _, copied, *_ = instruction.operands
    address, size = code.address(instruction.operands[outside]), code.source(copied, "u32")
    element = instruction.type if instruction.opcode == "cp" and instruction.type in DTYPES else "u8"

    def pieces(machine: Machine, lane: int) -> Piece:
        places = one(machine, start, lane), one(machine, address, lane), one(machine, size, lane)
        return plain_piece(machine, *places, lane, element=element)

    return pieces


def _decode_load(instruction: Instruction, code: Decoder) -> Run:
    pieces = _pieces(instruction, code, shared=0, outside=1)
    place = 2 if instruction.has("tensor") else 3
    barrier = code.address(instruction.operands[place])
    multicast, of_pairs = instruction.has("multicast::cluster"), instruction.has("cta_group::2")
    chosen = code.source(instruction.operands[place + 1 + instruction.has("im2col")], "b16") if multicast else None

    def run(machine: Machine, active: Mask) -> None:
        for lane in machine.active_lanes(active).tolist():
            piece, address = pieces(machine, lane), one(machine, barrier, lane)
            if chosen is None:
                cta, signalled = _owner(machine, int(piece.shared[0]), lane), _owner(machine, address, lane)
                if signalled not in (cta, cta ^ 1 if of_pairs else cta):
                    machine.fail("mbarrier", "the copy signals an mbarrier of a CTA that its bytes do not go to", lane)
                ctas = {cta: signalled}
            else:
                half = _owner(machine, address, lane) & 1
                ctas = {cta: cta & ~1 | half if of_pairs else cta for cta in named_ctas(machine, chosen, lane)}
            load_piece(machine, piece, lane, address & OFFSET, ctas)

    return run


def _owner(machine: Machine, address: int, lane: int) -> int:
    """The CTA in whose shared memory an address is."""
    found = int(machine.shared.owners(address, machine.cta[lane]))
    if found < 0:
        machine.fail("out of bounds", f"the shared address {address:#x} is outside of every CTA", lane)
    return found


def named_ctas(machine: Machine, chosen: Read, lane: int) -> Iterator[int]:
    """The CTAs of the lane's cluster that a mask names."""
    mask, first = one(machine, chosen, lane), int(machine.cta[lane]) // machine.cluster_size * machine.cluster_size
    if mask >> machine.cluster_size:
        machine.fail("out of bounds", f"the mask {mask:#x} names CTAs outside of the cluster", lane)
    return (first + rank for rank in range(machine.cluster_size) if mask >> rank & 1)


def _decode_store(instruction: Instruction, code: Decoder) -> Run:
    pieces = _pieces(instruction, code, shared=1, outside=0)
    operation = ""
    if instruction.parts[1] == "reduce":
        operation = next(part for part in instruction.parts[4:] if part in OPERATIONS)

    def run(machine: Machine, active: Mask) -> None:
        for lane in machine.active_lanes(active).tolist():
            store_piece(machine, pieces(machine, lane), lane, operation)

    return run


def _decode_between_ctas(instruction: Instruction, code: Decoder) -> Run:
    """cp.async.bulk.shared::cluster.shared::cta.mbarrier… [to], [from], bytes, [barrier]."""
    if instruction.parts[1] == "reduce":
        raise SimulationError("unsupported", "bulk reductions in shared memory are not simulated")
    target, origin, copied, signalled, *_ = instruction.operands
    to, source, barrier = (code.address(operand) for operand in (target, origin, signalled))
    size = code.source(copied, "u32")

    def run(machine: Machine, active: Mask) -> None:
        for lane in machine.active_lanes(active).tolist():
            cta, byte = int(machine.cta[lane]), np.arange(one(machine, size, lane))
            index = _indices(machine, one(machine, source, lane) + byte, cta, lane)
            target = _indices(machine, one(machine, to, lane) + byte, cta, lane)
            warps = np.array([machine.warp[lane]])
            engine_reads(machine, index, warps, lane)
            content = machine.shared.data[index].copy()
            engine_writes(machine, target, content, lane)
            key = int(_indices(machine, np.array([one(machine, barrier, lane)]), cta, lane)[0])
            land = partial(_land_between, machine, index, target, content, lane)
            machine.family(MBarriers).bytes_later(key, lane, len(byte), land)

    return run


def _land_between(machine: Machine, index: Array, target: Array, content: Array, lane: int, time: int) -> None:
    engine_has_read(machine, index, np.array([machine.warp[lane]]), time)
    engine_has_written(machine, target, content, lane, time)


HANDLERS: Handlers = {
    "cp.async.bulk": decode_copy,
    "cp.reduce.async.bulk": decode_copy,
    "cp.async.bulk.prefetch": nothing,
}
