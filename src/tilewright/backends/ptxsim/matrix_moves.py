"""Moves of small matrices between shared memory and the registers of a warp.

    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
    ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r1, %r2, %r3, %r4}, [%r5];
    stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r5], {%r1, %r2};
    stmatrix.sync.aligned.m16n8.x2.trans.shared.b8 [%r5], {%r1, %r2};
    movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;

Lane i gives the address of row i, 16 bytes, of all matrices one after the other. In registers a matrix of 8 rows of
b16 has row l // 4 and two neighbouring columns in lane l; one of 16 rows of b8, which only exists transposed, has
four neighbouring rows of column l // 4 in its first register, and of column l // 4 + 8 in its second. When bytes are
stored there are 8 rows: a register has two neighbouring rows of column l // 4, then of column l // 4 + 8.
"""

from __future__ import annotations

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.mma import (
    by_warp,
    lanes_of_warps,
    read_rows,
    read_warps,
    write_rows,
    write_warps,
)
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction

ROW = 16
"""Bytes of a row."""


def registers_of_rows(rows: Array, *, transposed: bool) -> Array:
    """Words of a warp from rows of b16: (…, matrix, 8, 16 bytes) -> (…, lane, matrix)."""
    elements = np.ascontiguousarray(rows).view(np.uint16)
    if transposed:
        elements = elements.swapaxes(-1, -2)
    return _words(elements)


def rows_of_registers(words: Array, *, transposed: bool) -> Array:
    """Rows of b16 from words of a warp: the reverse of `registers_of_rows`."""
    matrices = np.moveaxis(words, -1, -2)
    elements = np.ascontiguousarray(matrices).view(np.uint16).reshape(*matrices.shape[:-1], 8, 8)
    if transposed:
        elements = elements.swapaxes(-1, -2)
    return np.ascontiguousarray(elements).view(np.uint8)


def registers_of_wide_rows(rows: Array) -> Array:
    """Words of a warp from rows of b8, transposed: (…, matrix, 16, 16 bytes) -> (…, lane, 2 * matrix)."""
    columns = rows.swapaxes(-1, -2)
    halves = columns.reshape(*columns.shape[:-3], 2 * columns.shape[-3], 8, 16)
    return _words(halves)


def rows_of_byte_registers(words: Array) -> Array:
    """Rows of b8, transposed, from words of a warp: (…, lane, matrix) -> (…, matrix, 8, 16 bytes)."""
    matrices = np.ascontiguousarray(np.moveaxis(words, -1, -2)).view(np.uint8)
    # Lanes have a column and two rows; bytes another column and one more row.
    parts = matrices.reshape(*words.shape[:-2], words.shape[-1], 8, 4, 2, 2)
    rows = np.moveaxis(parts, (-3, -1, -2, -4), (-4, -3, -2, -1))
    return np.ascontiguousarray(rows).reshape(*words.shape[:-2], words.shape[-1], 8, ROW)


def _words(matrices: Array) -> Array:
    """(…, matrix, 8, 16 bytes) -> (…, lane, matrix): a word for each lane."""
    words = np.ascontiguousarray(matrices).view(np.uint32)
    return np.moveaxis(words.reshape(*words.shape[:-2], WARP), -1, -2)


def _expect(instruction: Instruction, *shapes: str) -> str:
    shape = instruction.parts[3]
    if shape not in shapes or instruction.type not in ("b16", "b8"):
        raise SimulationError("unsupported", f"matrices of {shape} and {instruction.type} are not simulated")
    return shape


def decode_load(instruction: Instruction, code: Decoder) -> Run:
    wide = _expect(instruction, "m8n8", "m16n16") == "m16n16"
    (place,) = instruction.sources
    writes, address = code.targets(instruction.destination, "b32"), code.address(place)
    matrices = len(writes) // 2 if wide else len(writes)
    height = 16 if wide else 8
    transposed = instruction.has("trans")

    def run(machine: Machine, active: Mask) -> None:
        warps = machine.whole_warps(active)
        lanes = lanes_of_warps(warps, height * matrices)
        addresses = by_warp(machine, address(machine), warps)[:, : height * matrices]
        rows = read_rows(machine, addresses.ravel(), lanes, ROW).reshape(len(warps), matrices, height, ROW)
        words = registers_of_wide_rows(rows) if wide else registers_of_rows(rows, transposed=transposed)
        write_warps(machine, active, warps, writes, words)

    return run


def decode_store(instruction: Instruction, code: Decoder) -> Run:
    of_bytes = _expect(instruction, "m8n8", "m16n8") == "m16n8"
    place, values = instruction.operands
    reads = [code.source(item, "b32") for item in items_of(values)]
    address = code.address(place)
    transposed = instruction.has("trans")

    def run(machine: Machine, active: Mask) -> None:
        warps = machine.whole_warps(active)
        lanes = lanes_of_warps(warps, 8 * len(reads))
        addresses = by_warp(machine, address(machine), warps)[:, : 8 * len(reads)]
        words = read_warps(machine, reads, warps)
        rows = rows_of_byte_registers(words) if of_bytes else rows_of_registers(words, transposed=transposed)
        write_rows(machine, addresses.ravel(), lanes, rows.reshape(-1, ROW))

    return run


def decode_move(instruction: Instruction, code: Decoder) -> Run:
    _expect(instruction, "m8n8")
    (read,), write = code.sources(instruction, "b32"), code.target(instruction.destination, "b32")

    def run(machine: Machine, active: Mask) -> None:
        warps = machine.whole_warps(active)
        rows = rows_of_registers(read_warps(machine, [read], warps), transposed=False)
        write_warps(machine, active, warps, [write], registers_of_rows(rows, transposed=True))

    return run


HANDLERS: Handlers = {"ldmatrix": decode_load, "stmatrix": decode_store, "movmatrix": decode_move}
