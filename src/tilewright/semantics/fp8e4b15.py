"""Triton's 8-bit float `fp8e4b15`: the upper byte of an fp16 number below two, without its highest exponent bit.

    s eeee mmm  is the fp16 number  s 0eeee mmm0000000:  no infinity, no NaN, -1.875 to 1.875, -0.0 exists

A number is converted in three steps: to fp16, rounded towards zero; clamped to ±1.75 (so is NaN); then rounded to
nearest, halves away from zero; the rounding mode changes nothing. No processor and no other library has the format. The
IR carries its codes in f8E4M3B11FNUZ, which has as many codes but other values; so only loads, stores and bitcasts may
work on them, and everything else converts them first. Arithmetic takes place in fp16.
"""

from __future__ import annotations

import numpy as np

from tilewright.ir.literals import float_from_bits
from tilewright.ir.types import FLOATS
from tilewright.semantics.tile import Tile, build, constant
from tilewright.semantics.types import AnyType, float8e4b15, float16, int8, int16

LARGEST_HALF = 0x3F00
"""1.75 as fp16, the largest number that a conversion gives."""


def widened(tile: Tile) -> Tile:
    """The fp16 numbers of fp8e4b15 elements; exact."""
    codes = build("tt.bitcast", [tile.handle], _like(tile, int8))
    spread = build("arith.extsi", [codes.handle], _like(tile, int16))
    placed = _with_constant("arith.andi", _with_constant("arith.shli", spread, 7), ~0x407F)
    return build("tt.bitcast", [placed.handle], _like(tile, float16))


def narrowed(tile: Tile) -> Tile:
    """fp16 elements as fp8e4b15."""
    bits = build("tt.bitcast", [tile.handle], _like(tile, int16))
    magnitude = _with_constant("arith.minsi", _with_constant("arith.andi", bits, 0x7FFF), LARGEST_HALF)
    code = _with_constant("arith.shrui", _with_constant("arith.addi", magnitude, 0x40), 7)
    sign = _with_constant("arith.andi", _with_constant("arith.shrui", bits, 8), 0x80)
    both = build("arith.ori", [code.handle, sign.handle], _like(tile, int16))
    return _of_codes(build("arith.trunci", [both.handle], _like(tile, int8)))


def without_sign(tile: Tile) -> Tile:
    """The absolute value of fp8e4b15 elements."""
    return _of_codes(_with_constant("arith.andi", build("tt.bitcast", [tile.handle], _like(tile, int8)), 0x7F))


def carried(number: float) -> float:
    """The f8E4M3B11FNUZ number that has the code of `number`: what a constant of the IR says."""
    return float_from_bits(code_of(number), FLOATS["f8E4M3B11FNUZ"])


def code_of(number: float) -> int:
    """The code that `number` gets."""
    with np.errstate(over="ignore"):
        single = np.float32(number)
        half = single.astype(np.float16)
    if abs(half) > abs(single):
        half = np.nextafter(half, np.float16(0))
    bits = int(half.view(np.uint16))
    return (min(bits & 0x7FFF, LARGEST_HALF) + 0x40) >> 7 | (bits >> 8 & 0x80)


def _like(tile: Tile, element: AnyType) -> AnyType:
    return tile.type.with_element_ty(element.scalar)


def _with_constant(name: str, tile: Tile, number: int) -> Tile:
    return build(name, [tile.handle, constant(number, tile.type).handle], tile.type)


def _of_codes(codes: Tile) -> Tile:
    return build("tt.bitcast", [codes.handle], _like(codes, float8e4b15))
