"""Large arguments of sin, cos and tan: x = n·π/2 + r, with the relevant bits of 2/π (Payne and Hanek).

    x = m · 2^s with an integer m:      x·2/π = m · (2^s · 2/π)

The bits of 2/π before s - 2 contribute multiples of 4, which change nothing, and are skipped. The product of m and the
next three words has n in its two top bits, and r·2/π below.

    quadrant, r, low = payne_hanek(x)       # x: one double; low is what r lacks
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from tilewright.backends.llvm.lanes import Lanes
from tilewright.backends.llvm.writer import LlvmWriter

HALF_PI = 1.5707963267948966
HALF_PI_LOW = 6.123233995736766e-17
FRACTION_BITS = {32: 224, 64: 1280}
"""The number of bits of 2/π that the largest float needs, and the largest double, by the bits of the type."""


def payne_hanek_float(x: Lanes) -> tuple[Lanes, Lanes, None]:
    """(n, r, None) of a scalar float of 2¹⁶ or so and more; smaller or infinite ones give some value.

    x = m · 2^s with a 24-bit integer m; 64 bits of its product with the next 96 bits are enough.
    """
    f, w, bits = x.kind, x.kind.writer, x.bits
    i32, i64, f64 = (f.with_element(element) for element in ("i32", "i64", "double"))
    exponent = (bits >> 23) & 255
    mantissa = i64.cast("zext", (bits | (1 << 23)) & ((1 << 24) - 1))
    start = i32.call("llvm.smax", exponent - 88, 0)  # s - 2, plus 64 zero bits before the table
    words = _words_of_two_over_pi(w, start)
    high, middle, low = (mantissa * i64.cast("zext", word) for word in words)
    fraction = (high << 32) + middle + (low >> 32)
    quadrant = i32.cast("trunc", (fraction >> 62) + ((fraction >> 61) & 1))
    rest = f64.cast("sitofp", fraction << 2)  # -½ … ½, times 2⁶⁴
    r = f.cast("fptrunc", rest * (HALF_PI * 2.0**-64))
    is_negative = bits < 0
    return i32.select(is_negative, -quadrant, quadrant), f.select(is_negative, -r, r), None


def payne_hanek(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """(n, r, low) of a scalar double of 2¹⁶ or so and more; smaller or infinite ones give some value.

    x = m · 2^s with a 53-bit integer m. Of 2/π, bits before s - 2 contribute multiples of 4 and are skipped; the
    product of m and the next 192 bits has the quadrant in its two top bits and r·2/π below.
    """
    f, w, bits = x.kind, x.kind.writer, x.bits
    i64, i128 = f.with_element("i64"), f.with_element("i128")
    exponent = (bits >> 52) & 2047
    mantissa = i128.cast("zext", (bits & ((1 << 52) - 1)) | (1 << 52))
    start = i64.call("llvm.smax", exponent - 1013, 0)  # s - 2, plus 64 zero bits before the table
    words = _words_of_two_over_pi(w, start)
    low, middle, high = (mantissa * i128.cast("zext", word) for word in reversed(words))
    middle = middle + (low >> 64)
    high = high + (middle >> 64)
    fraction = (high << 64) | (middle & ((1 << 64) - 1))
    quadrant = i64.cast("trunc", fraction >> 126) + i64.cast("trunc", (fraction >> 125) & 1)
    rest = fraction << 2  # as a signed number: -½ … ½
    is_negative = rest < 0
    magnitude = i128.select(is_negative, -rest, rest)
    zeros = i64.call("llvm.umin", _leading_zeros(i64.cast("trunc", magnitude >> 64)), 63)
    top = i64.cast("trunc", (magnitude << i128.cast("zext", zeros)) >> 64)
    scale = f.from_bits((1023 - 64 - zeros) << 52)
    part, rest_of_part = (f.cast("uitofp", top & mask) * scale for mask in (-0x800, 0x7FF))
    r = part * HALF_PI
    low = f.fma(part, HALF_PI, -r) + f.fma(part, HALF_PI_LOW, rest_of_part * HALF_PI)
    is_flipped = is_negative ^ (bits < 0)
    return i64.select(bits < 0, -quadrant, quadrant), f.select(is_flipped, -r, r), f.select(is_flipped, -low, low)


def _leading_zeros(x: Lanes) -> Lanes:
    return Lanes(x.kind, x.kind.writer.call("i64", "llvm.ctlz.i64", [("i64", x.name), ("i1", "false")]))


def _words_of_two_over_pi(w: LlvmWriter, start: Lanes) -> list[Lanes]:
    """192 bits of the table from bit `start`, in i32 96 bits, as three words, first bits first."""
    kind, width = start.kind, start.kind.width
    table = w.table(f"tw_two_over_pi_{width}", kind.element, two_over_pi_words(width))
    first, shift = start >> (width.bit_length() - 1), start & (width - 1)
    place = kind.with_element("i64").cast("zext", first)
    places = (w.offset(table, kind.element, (place + step).name) for step in range(4))
    loaded = [kind(w.load(kind.element, place, align=width // 8)) for place in places]
    return [kind.call("llvm.fshl", a, b, shift) for a, b in pairwise(loaded)]


@cache
def two_over_pi_words(width: int) -> tuple[int, ...]:
    """64 zero bits, then the fraction of 2/π, in words of so many bits: as many as the largest argument needs."""
    bits = FRACTION_BITS[width]
    guard = 64
    one = 1 << (bits + guard)
    pi = 4 * (4 * _arc_cotangent(5, one) - _arc_cotangent(239, one))
    fraction = ((2 * one * one) // pi) >> guard
    words = (fraction >> (bits - width * (number + 1)) for number in range(bits // width))
    return (*(0,) * (64 // width), *(word & ((1 << width) - 1) for word in words))


def _arc_cotangent(x: int, one: int) -> int:
    """atan(1/x) in units of 1/one."""
    power = total = one // x
    n, sign = 3, -1
    while power:
        power //= x * x
        total += sign * (power // n)
        n, sign = n + 2, -sign
    return total
