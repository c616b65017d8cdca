"""The number of binary digits of a float: products of few digits are exact, and so are narrow conversions of them.

    %x = tt.fp_to_fp %code : f8E4M3FN → f32            4 digits, a multiple of 2 ** -9
    %s = tt.bitcast (%e << 23) : i32 → f32             1 digit, a multiple of 2 ** -126
    arith.mulf %x, %s                                  5 digits, a multiple of 2 ** -135

Infinities and NaNs have no digits, apart from those that a conversion keeps of a NaN.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from tilewright.dialects.arith import Bitwise, Constant, FloatCast, Select
from tilewright.dialects.traits import Indexing
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import IntType

DEPTH = 40
"""Max number of ops that are looked through, one behind the other."""


class Digits(NamedTuple):
    """Numbers n · 2 ** e with |n| < 2 ** `digits` and e ≥ `unit`."""

    digits: int
    unit: int


FORMATS = {
    "f32": Digits(24, -149),
    "bf16": Digits(8, -133),
    "f16": Digits(11, -24),
    "f8E5M2": Digits(3, -16),
    "f8E5M2FNUZ": Digits(3, -17),
    "f8E4M3FN": Digits(4, -9),
    "f8E4M3FNUZ": Digits(4, -10),
    "f8E4M3B11FNUZ": Digits(4, -13),
}
"""The digits of all numbers of a format."""


def fits(digits: Digits | None, format: str) -> bool:
    """Whether a format has each of the numbers, apart from those that are too large for it."""
    return digits is not None and digits.digits <= FORMATS[format].digits and digits.unit >= FORMATS[format].unit


class BinaryDigits:
    """The digits of floats, and the low bits of integers that are zero, each of which is looked for once."""

    def __init__(self) -> None:
        self._digits: dict[Value, Digits | None] = {}
        self._zeros: dict[Value, int] = {}

    def of(self, value: Value, depth: int = DEPTH) -> Digits | None:
        """The digits of each element of a float or a tile of them; None if unknown."""
        if value not in self._digits:
            format = FORMATS.get(value.type.scalar.text)
            found = self._computed(value, depth - 1) if format is not None and depth > 0 else None
            self._digits[value] = format if found is None else found
        return self._digits[value]

    def _computed(self, value: Value, depth: int) -> Digits | None:
        """The digits that the op says; None: no more than the format does."""
        op = value.op
        if isinstance(op, Constant):
            return _of_number(_number(op))
        if isinstance(op, Bitcast):
            return self._of_bits(op.operand, FORMATS[value.type.scalar.text], depth)
        if isinstance(op, (Select, Indexing)):
            return _either([self.of(operand, depth) for operand in op.operands[isinstance(op, Select) :]])
        if isinstance(op, FloatCast) and op.operand.type.bits < value.type.bits:
            found = self.of(op.operand, depth)
            return found if fits(found, value.type.scalar.text) else None
        return self._product(op, depth) if op is not None and op.name == "arith.mulf" else None

    def _of_bits(self, bits: Value, format: Digits, depth: int) -> Digits | None:
        """A number whose last bits are zero: digits and unit are those of the format, without these bits."""
        if not isinstance(bits.type.scalar, IntType):
            return None
        zeros = min(self._zeros_of(bits, depth), format.digits - 1)
        return Digits(format.digits - zeros, format.unit + zeros)

    def _product(self, op: Op, depth: int) -> Digits | None:
        """The digits of a product that is not rounded; None: it may be."""
        a, b = (self.of(operand, depth) for operand in op.operands)
        if a is None or b is None:
            return None
        found = Digits(a.digits + b.digits - (1 in (a.digits, b.digits)), a.unit + b.unit)
        return found if fits(found, op.result.type.scalar.text) else None

    def _zeros_of(self, value: Value, depth: int) -> int:
        """The number of low bits that are zero in each element of an integer or a tile of them."""
        if value not in self._zeros:
            self._zeros[value] = self._counted(value, depth - 1) if depth > 0 else 0
        return self._zeros[value]

    def _counted(self, value: Value, depth: int) -> int:
        op = value.op
        if isinstance(op, Constant):
            number = _number(op)
            return _trailing_zeros(number) if isinstance(number, int) and number else 0
        if op is None or not (isinstance(op, (Bitwise, Select, Indexing)) or op.name == "arith.shli"):
            return 0
        if op.name == "arith.shli":
            shifted, distance = op.operands
            return min(value.type.bits, self._zeros_of(shifted, depth) + _distance(distance))
        zeros = [self._zeros_of(operand, depth) for operand in op.operands[isinstance(op, Select) :]]
        return max(zeros) if op.name == "arith.andi" else min(zeros, default=0)


def _number(op: Constant) -> int | float | None:
    """The number that all elements of a literal are."""
    return op.value.value if isinstance(op.value, Number) else None


def _of_number(number: object) -> Digits | None:
    """The digits of a literal; a NaN has none, unless its low bits are not zero."""
    if not isinstance(number, float) or math.isnan(number):
        return Digits(0, 0) if isinstance(number, float) and struct.pack("<d", number)[:6] == bytes(6) else None
    numerator, denominator = number.as_integer_ratio() if math.isfinite(number) else (0, 1)
    zeros = _trailing_zeros(numerator) if numerator else 0
    return Digits(numerator.bit_length() - zeros, zeros + 1 - denominator.bit_length())


def _either(several: list[Digits | None]) -> Digits | None:
    """Those of several values, one of which counts."""
    known = [digits for digits in several if digits is not None]
    if len(known) < len(several) or not known:
        return None
    return Digits(max(digits.digits for digits in known), min(digits.unit for digits in known))


def _distance(value: Value) -> int:
    """The number by which all elements are shifted; 0 if unknown."""
    number = _number(value.op) if isinstance(value.op, Constant) else 0
    return number if isinstance(number, int) and number > 0 else 0


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1
