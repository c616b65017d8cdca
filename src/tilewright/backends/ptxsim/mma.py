"""Matrix products of a warp, from registers to registers.

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d…}, {a…}, {b…}, {c…};
    mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0
        {d…}, {a…}, {b…}, {c…}, sa, {byte, thread}, sb, {byte, thread};

`fragments.py` says who holds what, `mma_arithmetic.py` how sums are rounded. Not simulated: sparse products (`mma.sp`),
and the f16 m8n8k4 of sm_70.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, Read, items_of
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.fragments import (
    accumulator,
    first_operand,
    gather,
    scale_lanes,
    second_operand,
    spread,
)
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.mma_arithmetic import finish, multiply, multiply_bits, scaled
from tilewright.backends.ptxsim.value_types import WIDTHS, Array, Mask, read_elements
from tilewright.backends.ptxsim.warp_registers import by_warp, read_warps, write_warps
from tilewright.support.ptx_syntax import Instruction, Operand

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


HANDLERS: Handlers = {"mma": decode_mma, "mma.sp": decode_sparse, "mma.sp::ordered_metadata": decode_sparse}
