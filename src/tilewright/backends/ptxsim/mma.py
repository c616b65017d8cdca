"""Matrix products of a warp between registers, and moves of small matrices to and from shared memory.

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d…}, {a…}, {b…}, {c…};
    mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0
        {d…}, {a…}, {b…}, {c…}, sa, {byte, thread}, sb, {byte, thread};

Not simulated: sparse products (`mma.sp`), and the f16 m8n8k4 of sm_70.

Registers of whole warps, and rows of shared memory:

    words = read_warps(machine, reads, warps)               # (warp, lane, register)
    write_warps(machine, active, warps, writes, words)
    rows = read_rows(machine, addresses, lanes, 16)         # (lane, byte), checked

The fragments of each lane:

    rows, columns = first_operand(rows=16, depth=16, bits=16)   # of f16: (lane, register, element) -> row, depth
    matrices = spread(values, rows, columns, (16, 16))          # (warp, lane, register, element) -> (warp, row, depth)
    gather(matrices, rows, columns)                             # and back

One rule covers all shapes. In the first operand, lane 4g + t has row g of each group of eight rows and word t of each
group of four words of the depth; a word is 32 bits, or one f64. Registers count rows first. The second operand has
column g in place of row g. In the accumulator lane 4g + t has row g and two neighbouring columns from 2t.

The sum of one instruction: every product of two elements is exact; the products of one instruction are added in
float64, in the order of NumPy's `matmul`; that sum and the accumulator are added in float64 and rounded once, to
nearest even, to the type of the result. A matrix product of several instructions rounds after each, in program order.
Products of f16, bf16, tf32 and of narrower types have at most 22 bits, so that the order within an instruction
changes nothing but the last bits of a float64. For f64 each product and sum is rounded as float64. Hardware keeps
fewer bits while it adds, so results agree to the precision of the accumulator, not bit by bit.
Integer sums are exact, then wrap, or saturate where the instruction says so.

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

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.ptxsim.accesses import check_shared, locate_shared
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read, Write, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.value_types import INTEGERS, WIDTHS, Array, Mask, read_elements, write_elements
from tilewright.support.ptx_syntax import Instruction, Operand


def by_warp(machine: Machine, values: Array, warps: Array) -> Array:
    """Values of all lanes as (warp, lane), for some warps."""
    return np.broadcast_to(values, machine.lanes).reshape(-1, WARP)[warps]


def read_warps(machine: Machine, reads: Sequence[Read], warps: Array) -> Array:
    """Registers of warps: (warp, lane, register)."""
    return np.stack([by_warp(machine, read(machine), warps) for read in reads], axis=-1)


def write_warps(machine: Machine, active: Mask, warps: Array, writes: Sequence[Write], values: Array) -> None:
    """Write registers of warps, from (warp, lane, register).

    Args:
        active: the lanes that write.
        warps: the numbers of the warps.
        writes: write the registers, one each.
        values: the numbers for them.
    """
    for number, write in enumerate(writes):
        if len(warps) * WARP == machine.lanes:
            full = values[..., number]
        else:
            full = np.zeros((machine.warps, WARP), values.dtype)
            full[warps] = values[..., number]
        write(machine, active, np.ascontiguousarray(full).reshape(-1))


def lanes_of_warps(warps: Array, count: int = WARP) -> Array:
    """The first so many lanes of warps, one after the other."""
    lanes: Array = (warps[:, None] * WARP + np.arange(count)).ravel()
    return lanes


def read_rows(machine: Machine, addresses: Array, lanes: Array, width: int) -> Array:
    """Bytes of shared memory at the addresses of some lanes: (lane, byte). Rows of `width` bytes are aligned to it."""
    index = locate_shared(machine, addresses, lanes, width, "load")
    check_shared(machine, index, lanes, width, "read")
    return machine.shared.data[index[:, None] + np.arange(width)]


def write_rows(machine: Machine, addresses: Array, lanes: Array, rows: Array) -> None:
    """Store bytes of (lane, byte) at the addresses of some lanes in shared memory."""
    width = rows.shape[1]
    index = locate_shared(machine, addresses, lanes, width, "store")
    check_shared(machine, index, lanes, width, "write")
    machine.shared.data[index[:, None] + np.arange(width)] = rows
    machine.changes += 1


Places = NDArray[np.int64]
GROUP = 8
LANES = 32


@cache
def first_operand(rows: int, depth: int, bits: int) -> tuple[Places, Places]:
    """Row and place in the depth, by lane, register and element of the register."""
    per_word, repeats = max(1, 32 // bits), rows // GROUP
    registers = rows * depth // LANES // per_word
    lane, register, element = np.ogrid[:LANES, :registers, :per_word]
    row = lane // 4 + GROUP * (register % repeats) + 0 * element
    place = (register // repeats) * 4 * per_word + lane % 4 * per_word + element
    return row, place


@cache
def second_operand(columns: int, depth: int, bits: int) -> tuple[Places, Places]:
    """Place in the depth and column, by lane, register and element of the register."""
    column, place = first_operand(columns, depth, bits)
    return place, column


@cache
def accumulator(rows: int, columns: int) -> tuple[Places, Places]:
    """Row and column, by lane and element: two columns, then eight rows further, then eight columns further."""
    repeats = rows // GROUP
    lane, element = np.ogrid[:LANES, : rows * columns // LANES]
    row = lane // 4 + GROUP * (element // 2 % repeats)
    column = lane % 4 * 2 + element % 2 + GROUP * (element // (2 * repeats))
    return row, column


def spread(values: NDArray[Any], first: Places, second: Places, shape: tuple[int, int]) -> NDArray[Any]:
    """Matrices from the elements of warps: `values` has the warp and the shape of `first`."""
    matrices = np.empty((len(values), *shape), values.dtype)
    matrices[:, first, second] = values
    return matrices


def gather(matrices: NDArray[Any], first: Places, second: Places) -> NDArray[Any]:
    """The elements of warps from their matrices."""
    found: NDArray[Any] = matrices[:, first, second]
    return found


@cache
def scale_lanes(rows: int, chosen: int) -> Places:
    """The lane that holds the scales of each row of the first operand (16 rows), or column of the second (8).

    `chosen` is the instruction's thread selector: which pair of the four lanes of a group, or which lane.
    """
    index = np.arange(rows)
    return index % GROUP * 4 + (2 * chosen + index // GROUP if rows > GROUP else chosen)


Values = NDArray[Any]


def multiply(first: Values, second: Values) -> Values:
    """The product of the values that `read_elements` gives: int64 for integers, else float64."""
    if first.dtype.kind == "i":
        first, second = first.astype(np.float64), second.astype(np.float64)
        counts: Values = np.matmul(first, second).astype(np.int64)
        return counts
    product: Values = np.matmul(first, second)
    return product


def finish(total: Values, element: str, *, saturate: bool = False) -> NDArray[np.uint8]:
    """Bytes of a sum as elements of this type: rounded, wrapped, or saturated."""
    if saturate and element in INTEGERS:
        limits = np.iinfo(np.int32)
        total = np.clip(total, limits.min, limits.max)
    return write_elements(total, element)


def multiply_bits(first: Values, second: Values, operation: str) -> Values:
    """The number of ones along the depth in `and`, or in `xor`, of two matrices of bits."""
    both = multiply(first, second)
    if operation == "and":
        return both
    different: Values = first.sum(-1)[..., :, None] + second.sum(-2)[..., None, :] - 2 * both
    return different


def scaled(values: Values, scales: Values, axis: int) -> Values:
    """Values times scales, each of which belongs to a block of neighbours along `axis`."""
    block = values.shape[axis] // scales.shape[axis]
    found: Values = values * np.repeat(scales, block, axis=axis)
    return found


_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SCALE_COUNTS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_PACKED_KINDS = ("kind::mxf4", "kind::mxf4nvf4")

Scales = Callable[[Machine, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Form:
    """The form that the opcode names: extents, types of the result, the operands and the accumulator."""

    rows: int
    columns: int
    depth: int
    result: str
    first: str
    second: str
    sums: str


def extents_of(instruction: Instruction) -> tuple[int, int, int]:
    """Rows, columns and depth, from the opcode's part `m16n8k16`."""
    found = next(match for part in instruction.parts if (match := _SHAPE.fullmatch(part)))
    return int(found[1]), int(found[2]), int(found[3])


def _form(instruction: Instruction) -> Form:
    rows, columns, depth = extents_of(instruction)
    result, first, second, sums = [part for part in instruction.parts if part in WIDTHS][:4]
    if any(kind in instruction.parts for kind in _PACKED_KINDS):
        first = second = "e2m1x2"
    if rows == 8 and first == "f16":
        raise SimulationError("unsupported", "the f16 products of sm_70 are not simulated")
    return Form(rows, columns, depth, result, first, second, sums)


def fragment_values(words: Array, element: str, registers: int) -> Array:
    """The elements of registers: (warp, lane, register) -> (warp, lane, register, element)."""
    values = read_elements(np.ascontiguousarray(words).view(np.uint8), element)
    return values.reshape(*values.shape[:2], registers, -1)


def _readers(operand: Operand, element: str, code: Decoder) -> list[Read]:
    return [code.source(item, "b64" if element == "f64" else "b32") for item in items_of(operand)]


def decode_mma(instruction: Instruction, code: Decoder) -> Run:
    form = _form(instruction)
    result, first, second, sums, *rest = instruction.operands
    writes = code.targets(result, "b64" if form.result == "f64" else "b32")
    read_first, read_second = _readers(first, form.first, code), _readers(second, form.second, code)
    read_sums = _readers(sums, form.sums, code)
    first_places = first_operand(form.rows, form.depth, WIDTHS[form.first])
    second_places = second_operand(form.columns, form.depth, WIDTHS[form.second])
    sum_places = accumulator(form.rows, form.columns)
    scales = _decode_scales(instruction, rest, code) if rest else None
    product = _product(instruction)
    saturate = instruction.has("satfinite")

    def run(machine: Machine, active: Mask) -> None:
        warps = machine.whole_warps(active)
        a = fragment_values(read_warps(machine, read_first, warps), form.first, len(read_first))
        b = fragment_values(read_warps(machine, read_second, warps), form.second, len(read_second))
        a = spread(a, *first_places, (form.rows, form.depth))
        b = spread(b, *second_places, (form.depth, form.columns))
        if scales is not None:
            of_rows, of_columns = scales(machine, warps)
            a, b = scaled(a, of_rows, 2), scaled(b, of_columns, 1)
        c = read_elements(np.ascontiguousarray(read_warps(machine, read_sums, warps)).view(np.uint8), form.sums)
        total = gather(product(a, b), *sum_places) + c
        raw = finish(total, form.result, saturate=saturate)
        words = raw.view(np.uint64 if form.result == "f64" else np.uint32)
        write_warps(machine, active, warps, writes, words)

    return run


def _product(instruction: Instruction) -> Callable[[Array, Array], Array]:
    if not instruction.has("popc"):
        return multiply
    operation = "and" if instruction.has("and") else "xor"
    return lambda a, b: multiply_bits(a, b, operation)


def _decode_scales(instruction: Instruction, operands: list[Operand], code: Decoder) -> Scales:
    """Reads the scales: (warp, row, block) of the first operand and (warp, block, column) of the second."""
    count = next((n for part, n in _SCALE_COUNTS.items() if instruction.has(part)), 1)
    element = instruction.parts[-1]
    rows, columns, _ = extents_of(instruction)
    a, chosen_of_a, b, chosen_of_b = operands
    first = _scale_reader(a, chosen_of_a, code, element=element, lines=rows, count=count)
    second = _scale_reader(b, chosen_of_b, code, element=element, lines=columns, count=count)
    return lambda machine, warps: (first(machine, warps), second(machine, warps).swapaxes(1, 2))


def _scale_reader(
    word: Operand, selectors: Operand, code: Decoder, *, element: str, lines: int, count: int
) -> Callable[[Machine, Array], Array]:
    read = code.source(word, "b32")
    read_byte, read_thread = (code.source(item, "u16") for item in items_of(selectors))

    def scales(machine: Machine, warps: Array) -> Array:
        byte, thread = int(read_byte(machine)[0]), int(read_thread(machine)[0])
        words = by_warp(machine, read(machine), warps)[:, scale_lanes(lines, thread)]
        raw = np.ascontiguousarray(words).view(np.uint8).reshape(*words.shape, 4)
        return read_elements(raw[..., byte : byte + count], element)

    return scales


def decode_sparse(instruction: Instruction, code: Decoder) -> Run:
    raise SimulationError("unsupported", "sparse products are not simulated")


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


def decode_load_matrix(instruction: Instruction, code: Decoder) -> Run:
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


def decode_store_matrix(instruction: Instruction, code: Decoder) -> Run:
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


def decode_move_matrix(instruction: Instruction, code: Decoder) -> Run:
    _expect(instruction, "m8n8")
    (read,), write = code.sources(instruction, "b32"), code.target(instruction.destination, "b32")

    def run(machine: Machine, active: Mask) -> None:
        warps = machine.whole_warps(active)
        rows = rows_of_registers(read_warps(machine, [read], warps), transposed=False)
        write_warps(machine, active, warps, [write], registers_of_rows(rows, transposed=True))

    return run


HANDLERS: Handlers = {
    "mma": decode_mma,
    "mma.sp": decode_sparse,
    "mma.sp::ordered_metadata": decode_sparse,
    "ldmatrix": decode_load_matrix,
    "stmatrix": decode_store_matrix,
    "movmatrix": decode_move_matrix,
}
