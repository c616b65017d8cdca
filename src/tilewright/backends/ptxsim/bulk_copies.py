"""Copies by the copy engine: boxes of tensors, and pieces of memory.

    cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r1];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], 1024, [%r4];
    cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%rd1, {%r2}], [%r1];
    cp.async.bulk.commit_group;      cp.async.bulk.wait_group.read 0;

A copy into shared memory lands as late as its mbarrier lets it (`mbarriers.py`); until then its bytes belong to it.
A copy out of shared memory reads when it is issued, and its source is in use until a wait covers it; its result stands
in global memory at once. Not simulated: im2col, and bulk reductions in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tilewright.backends.ptxsim.accesses import nothing
from tilewright.backends.ptxsim.bulk_operands import Piece, box_piece, one, plain_piece, tensor_operand
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.mbarriers import WIDTH, MBarriers
from tilewright.backends.ptxsim.memory import INITIALISED, VALID, WRITABLE, WRITTEN, Fault
from tilewright.backends.ptxsim.proxies import engine_has_read, engine_has_written, engine_reads, engine_writes
from tilewright.backends.ptxsim.shared import WINDOW_BITS
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction, number_of

Pieces: TypeAlias = Callable[[Machine, int], Piece]
_OFFSET = (1 << WINDOW_BITS) - 1

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


@dataclass(eq=False)
class Store:
    """A copy out of shared memory whose source is still in use."""

    lane: int
    group: int
    index: Array


class BulkGroups:
    """The copies out of shared memory of all lanes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flying: list[Store] = []
        self.open_group = np.zeros(machine.lanes, np.int64)
        machine.at_exit.append(self.left)

    def wait(self, lanes: Array, kept: int) -> None:
        """All but the newest groups of lanes have been read."""
        waiting = set(lanes.tolist())
        for store in list(self.flying):
            if store.lane in waiting and store.group < self.open_group[store.lane] - kept:
                engine_has_read(self.machine, store.index, np.array([self.machine.warp[store.lane]]))
                self.flying.remove(store)

    def left(self, ended: Array) -> None:
        """Lanes have ended: once a CTA is gone its shared memory is, too."""
        machine = self.machine
        for store in self.flying:
            cta = machine.cta[store.lane]
            if ended[machine.cta == cta].any() and not machine.alive[machine.cta == cta].any():
                machine.fail("race", "the CTA ends while a bulk copy still reads its shared memory", store.lane)


def _indices(machine: Machine, addresses: Array, cta: int, lane: int) -> Array:
    found = machine.shared.locate(addresses, np.full(len(addresses), cta), 1, "bulk copy")
    if isinstance(found, Fault):
        machine.fail(found.kind, found.text, lane)
    return found


def load_piece(machine: Machine, piece: Piece, lane: int, barrier: int, ctas: list[int]) -> None:
    """Copy from global memory into the shared memory of CTAs, whose mbarriers at the same place are told."""
    memory = machine.memory
    fault = memory.fault(piece.global_[piece.inside], 1, "bulk copy", needs=VALID | INITIALISED)
    if fault is not None:
        machine.fail(fault.kind, fault.text, lane)
    content = piece.fill.copy()
    content[piece.inside] = memory.views[1][piece.global_[piece.inside]]
    for cta in ctas:
        index = _indices(machine, piece.shared, cta, lane)
        engine_writes(machine, index, lane)
        key = int(_indices(machine, np.array([barrier]), cta, lane)[0])
        _check_barrier(machine, key, lane)
        land = partial(engine_has_written, machine, index, content, lane)
        machine.family(MBarriers).bytes_later(key, lane, piece.counted, land)


def _check_barrier(machine: Machine, key: int, lane: int) -> None:
    fault = machine.shared.read(key + np.arange(WIDTH), np.full(WIDTH, machine.warp[lane]))
    if fault is not None:
        machine.fail(fault.kind, f"the mbarrier: {fault.text}", lane)


def store_piece(machine: Machine, piece: Piece, lane: int, operation: str) -> None:
    """Copy from the CTA's shared memory to global memory, or combine with what stands there."""
    memory, inside = machine.memory, piece.inside
    index = _indices(machine, piece.shared, int(machine.cta[lane]), lane)
    engine_reads(machine, index, np.array([machine.warp[lane]]), lane)
    needs = VALID | WRITABLE | (INITIALISED if operation else 0)
    offsets = piece.global_[inside]
    fault = memory.fault(offsets, 1, "bulk copy", needs=needs)
    if fault is not None:
        machine.fail(fault.kind, fault.text, lane)
    content = machine.shared.data[index[inside]]
    if operation:
        dtype = DTYPES[piece.element]
        old = memory.views[1][offsets].view(dtype)
        content = np.ascontiguousarray(OPERATIONS[operation](old, content.view(dtype))).view(np.uint8)
    memory.views[1][offsets] = content
    memory.state[1][offsets] |= INITIALISED | WRITTEN
    machine.changes += 1
    groups = machine.family(BulkGroups)
    groups.flying.append(Store(lane, int(groups.open_group[lane]), index))


def _spaces(instruction: Instruction) -> tuple[str, str]:
    """The space that a copy goes to, and the one that it comes from."""
    found = [part.split("::")[0] for part in instruction.parts if part.split("::")[0] in ("shared", "global")]
    return found[0], found[1]


def decode_copy(instruction: Instruction, code: Decoder) -> Run:
    """cp.async.bulk… and cp.reduce.async.bulk…"""
    to, source = _spaces(instruction)
    if any(part.startswith("im2col") for part in instruction.parts):
        raise SimulationError("unsupported", "im2col copies are not simulated")
    if to == source:
        return _decode_between_ctas(instruction, code)
    return _decode_load(instruction, code) if to == "shared" else _decode_store(instruction, code)


def _pieces(instruction: Instruction, code: Decoder, *, shared: int, outside: int) -> Pieces:
    """The pieces that the instruction copies; `shared` and `outside` are the numbers of the operands."""
    start = code.address(instruction.operands[shared])
    if instruction.has("tensor"):
        rows = any(part in ("tile::gather4", "tile::scatter4") for part in instruction.parts)
        read = tensor_operand(instruction.operands[outside], code, rows=rows)

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
    multicast = instruction.has("multicast::cluster")
    chosen = code.source(instruction.operands[place + 1], "b16") if multicast else None

    def run(machine: Machine, active: Mask) -> None:
        for lane in machine.active_lanes(active).tolist():
            piece, address = pieces(machine, lane), one(machine, barrier, lane)
            ctas = [int(machine.cta[lane])]
            if chosen is not None:
                ctas = list(_named_ctas(machine, chosen, lane))
                piece = Piece(**{**vars(piece), "shared": piece.shared & _OFFSET})
                address &= _OFFSET
            load_piece(machine, piece, lane, address, ctas)

    return run


def _named_ctas(machine: Machine, chosen: Read, lane: int) -> Iterator[int]:
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
    target, origin, copied, told, *_ = instruction.operands
    to, source, barrier = (code.address(operand) for operand in (target, origin, told))
    size = code.source(copied, "u32")

    def run(machine: Machine, active: Mask) -> None:
        for lane in machine.active_lanes(active).tolist():
            cta, byte = int(machine.cta[lane]), np.arange(one(machine, size, lane))
            index = _indices(machine, one(machine, source, lane) + byte, cta, lane)
            target = _indices(machine, one(machine, to, lane) + byte, cta, lane)
            warps = np.array([machine.warp[lane]])
            engine_reads(machine, index, warps, lane)
            engine_writes(machine, target, lane)
            content = machine.shared.data[index].copy()
            key = int(_indices(machine, np.array([one(machine, barrier, lane)]), cta, lane)[0])
            land = partial(_land_between, machine, index, target, content, lane)
            machine.family(MBarriers).bytes_later(key, lane, len(byte), land)

    return run


def _land_between(machine: Machine, index: Array, target: Array, content: Array, lane: int, time: int) -> None:
    engine_has_read(machine, index, np.array([machine.warp[lane]]), time)
    engine_has_written(machine, target, content, lane, time)


def decode_commit(_: Instruction, code: Decoder) -> Run:
    def run(machine: Machine, active: Mask) -> None:
        machine.family(BulkGroups).open_group[machine.active_lanes(active)] += 1

    return run


def decode_wait(instruction: Instruction, code: Decoder) -> Run:
    (kept,) = map(number_of, instruction.operands)

    def run(machine: Machine, active: Mask) -> None:
        machine.family(BulkGroups).wait(machine.active_lanes(active), kept)

    return run


HANDLERS: Handlers = {
    "cp.async.bulk": decode_copy,
    "cp.reduce.async.bulk": decode_copy,
    "cp.async.bulk.prefetch": nothing,
    "cp.async.bulk.commit_group": decode_commit,
    "cp.async.bulk.wait_group": decode_wait,
}
