"""4-bit floats, two in each byte, as f16 or bf16.

    %y = ttg.fp4_to_fp %x {axis = 1} : tensor<64x16xi8> -> tensor<64x32xbf16>

A code has a sign, two bits of exponent and one of mantissa. Put where the wider format has them, they are the number
times a power of two, also for the one denormal number; so a byte becomes two numbers by shifts and one product.
"""

from __future__ import annotations

from functools import cache

from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.dialects.ttg_program import Fp4ToFp
from tilewright.layouts.linear_layout import LinearLayout

MAGNITUDES, SIGNS = (0x07, 0x70), (0x08, 0x80)
"""The bits of the lower and the upper code of a byte."""
SIGN_SHIFTS = (12, 24)
"""Shifts of the signs, in bits: to the highest bit of each half of a word."""
FORMS = {"half": (9, "0xH7400"), "bfloat": (6, "0xR7E80")}
"""The shift of magnitudes, in bits, and the power of two that is missing then: 2^14, 2^126."""
HALF = 16


def _fp4_to_fp(lowerer: Lowerer, op: Fp4ToFp) -> None:
    element, registers = lowerer.element(op.result.type), lowerer.registers(op.source)
    known: dict[str, tuple[str, str]] = {}
    found = []
    for register, half in sources(lowerer.layout(op.source), lowerer.layout(op.result), op.axis):
        byte = registers[register]
        if byte not in known:
            known[byte] = _numbers(lowerer, byte, element)
        found.append(known[byte][half])
    lowerer.bind(op.result, found)


def _numbers(lowerer: Lowerer, byte: str, element: str) -> tuple[str, str]:
    w = lowerer.w
    shift, scale = FORMS[element]
    wide = w.emit(f"zext i8 {byte} to i32")
    moves = [(MAGNITUDES[0], shift), (MAGNITUDES[1], shift + HALF - 4)]
    moves += list(zip(SIGNS, SIGN_SHIFTS, strict=True))
    word = ""
    for mask, up in moves:
        part = w.emit(f"shl i32 {w.emit(f'and i32 {wide}, {mask}')}, {up}")
        word = w.emit(f"or disjoint i32 {word}, {part}") if word else part
    type = f"<2 x {element}>"
    codes = w.emit(f"bitcast i32 {word} to {type}")
    pair = w.emit(f"fmul {type} {codes}, splat ({element} {scale})")
    return w.extract(type, pair, 0), w.extract(type, pair, 1)


@cache
def sources(source: LinearLayout, result: LinearLayout, axis: int) -> list[tuple[int, int]]:
    """Per register of the result the register with its byte, and which half of it."""
    first = {source.apply(register=number): number for number in reversed(range(source.in_size("register")))}
    found = []
    for number in range(result.in_size("register")):
        place = list(result.apply(register=number))
        half = place[axis] & 1
        place[axis] >>= 1
        found.append((first[tuple(place)], half))
    return found


LOWERINGS: dict[str, Lowering] = {"ttg.fp4_to_fp": _fp4_to_fp}
