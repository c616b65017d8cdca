"""Integer division, shifts and wide products whose result is defined for every operand, and that never trap.

x / 0 and x % 0 are 0. The smallest integer divided by -1 is itself, with remainder 0. A shift by the width or more
gives 0; an arithmetic right shift then gives the sign. Vectors of up to 32-bit integers divide as floats, which is
exact:

    i32 <16>:  %d = fdiv <16 x double> %a, %b       (double holds every quotient closely enough to truncate it)
    i64 <8>:   eight scalar divisions
    constant divisor: LLVM's own multiplication by the reciprocal
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.backends.llvm.lanes import Lanes, LaneType

BinaryRule: TypeAlias = Callable[[Lanes, Lanes], Lanes]


def divide_signed(a: Lanes, b: Lanes) -> Lanes:
    """a / b rounded towards zero."""
    known = constant_value(b)
    if known is not None:
        return _divide_by_constant("sdiv", a, known)
    k = a.kind
    quotient = _quotient("sdiv", a, k.select(_is_zero_or_minus_one(b), 1, b))
    return k.select(b.equals(-1), -a, k.select(b.equals(0), 0, quotient))


def divide_unsigned(a: Lanes, b: Lanes) -> Lanes:
    """a / b of unsigned integers."""
    known = constant_value(b)
    if known is not None:
        return _divide_by_constant("udiv", a, known)
    k = a.kind
    is_zero = b.equals(0)
    return k.select(is_zero, 0, _quotient("udiv", a, k.select(is_zero, 1, b)))


def remainder_signed(a: Lanes, b: Lanes) -> Lanes:
    """a - (a / b) * b with the quotient rounded towards zero; 0 where b is 0."""
    if a.kind.lanes == 1 and constant_value(b) is None:
        return a.kind.binary("srem", a, a.kind.select(_is_zero_or_minus_one(b), 1, b))
    return _where_nonzero(b, a - divide_signed(a, b) * b)


def remainder_unsigned(a: Lanes, b: Lanes) -> Lanes:
    """a mod b of unsigned integers; 0 where b is 0."""
    if a.kind.lanes == 1 and constant_value(b) is None:
        return a.kind.binary("urem", a, a.kind.select(b.equals(0), 1, b))
    return _where_nonzero(b, a - divide_unsigned(a, b) * b)


def divide_down(a: Lanes, b: Lanes) -> Lanes:
    """a / b rounded down."""
    quotient = divide_signed(a, b)
    rest = _where_nonzero(b, a - quotient * b)
    rounded_up = rest.differs(0) & ((rest ^ b) < 0)
    return quotient + a.kind.cast("sext", rounded_up)


def divide_up_signed(a: Lanes, b: Lanes) -> Lanes:
    """a / b rounded up."""
    quotient = divide_signed(a, b)
    rest = _where_nonzero(b, a - quotient * b)
    rounded_down = rest.differs(0) & ((rest ^ b) >= 0)
    return quotient + a.kind.cast("zext", rounded_down)


def divide_up_unsigned(a: Lanes, b: Lanes) -> Lanes:
    """a / b of unsigned integers rounded up."""
    quotient = divide_unsigned(a, b)
    rest = _where_nonzero(b, a - quotient * b)
    return quotient + a.kind.cast("zext", rest.differs(0))


def shift_left(a: Lanes, b: Lanes) -> Lanes:
    return _in_width(a, b, a << b)


def shift_right_unsigned(a: Lanes, b: Lanes) -> Lanes:
    return _in_width(a, b, a >> b)


def shift_right_signed(a: Lanes, b: Lanes) -> Lanes:
    return a.shift_signed(a.kind.call("llvm.umin", b, a.kind.width - 1))


def multiply_high_unsigned(a: Lanes, b: Lanes) -> Lanes:
    """The upper half of the double-width product."""
    k = a.kind
    if k.width < 64:
        wide = k.with_element(f"i{2 * k.width}")
        return k.cast("trunc", (wide.cast("zext", a) * wide.cast("zext", b)) >> k.width)
    # by halves: (a1·2³² + a0)·(b1·2³² + b0)
    low = 0xFFFFFFFF
    a0, a1, b0, b1 = a & low, a >> 32, b & low, b >> 32
    middle = a1 * b0 + ((a0 * b0) >> 32)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> 32) + (other >> 32)


def constant_value(operand: Lanes) -> int | None:
    """The number, when an operand is a constant with the same value in every lane."""
    text = operand.name
    if text == "zeroinitializer":
        return 0
    if text.startswith("splat ("):
        text = text[len("splat (") : -1].split()[1]
    return int(text) if text.lstrip("-").isdigit() else None


def _divide_by_constant(opcode: str, a: Lanes, divisor: int) -> Lanes:
    if divisor == 0:
        return a.kind(0)
    if divisor == -1 and opcode == "sdiv":
        return -a
    return a.kind.binary(opcode, a, divisor)


def _quotient(opcode: str, a: Lanes, b: Lanes) -> Lanes:
    """a / b where b is neither 0 nor (signed) -1."""
    k = a.kind
    if k.lanes == 1:
        return k.binary(opcode, a, b)
    if k.width > 32:
        return _lane_by_lane(opcode, a, b)
    # A quotient that is no integer is at least 1/b below the next one, far more than the rounding of the division.
    floats = k.with_element("float" if k.width <= 16 else "double")
    to_float, to_integer = ("sitofp", "fptosi") if opcode == "sdiv" else ("uitofp", "fptoui")
    return k.cast(to_integer, floats.cast(to_float, a) / floats.cast(to_float, b))


def _lane_by_lane(opcode: str, a: Lanes, b: Lanes) -> Lanes:
    k, w = a.kind, a.kind.writer
    result = "poison"
    for lane in range(k.lanes):
        x, y = w.extract(k.type, a.name, lane), w.extract(k.type, b.name, lane)
        result = w.insert(k.type, result, k.element, w.emit(f"{opcode} {k.element} {x}, {y}"), lane)
    return Lanes(k, result)


def _is_zero_or_minus_one(b: Lanes) -> Lanes:
    return b.kind.compare("ult", b + 1, 2)


def _where_nonzero(b: Lanes, value: Lanes) -> Lanes:
    known = constant_value(b)
    if known is not None:
        return value if known else b.kind(0)
    return b.kind.select(b.equals(0), 0, value)


def _in_width(a: Lanes, b: Lanes, shifted: Lanes) -> Lanes:
    known, width = constant_value(b), a.kind.width
    if known is not None:
        return shifted if 0 <= known < width else a.kind(0)
    return a.kind.select(a.kind.compare("ult", b, width), shifted, 0)


def on_bytes(rule: BinaryRule, extension: str) -> BinaryRule:
    """The rule for i1 operands: extended to i8 (`sext` or `zext`) and truncated after."""

    def applied(a: Lanes, b: Lanes) -> Lanes:
        wide: LaneType = a.kind.with_element("i8")
        return a.kind.cast("trunc", rule(wide.cast(extension, a), wide.cast(extension, b)))

    return applied
