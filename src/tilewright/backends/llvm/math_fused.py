"""`a·b + c` of double rounded once, where the processor has no instruction for it.

The factors and c are numbers of 1 to 2 times powers of two, so that nothing over- or underflows:

    high + low = x · y                          exact (Dekker's product)
    z · 2^d                                     c at the scale of the product; |d| ≤ REACH: what is farther away only
                                                says that bits were cut off
    r + tail = high + low + z · 2^d             r is the sum rounded once, tail what is missing, rounded to odd
    (magic + r + tail) - magic                  where the result is subnormal: it has fewer bits, and magic's last bit
                                                is the last one of these

The result is multiplied by its power of two, which is exact or overflows. Zero factors, infinities and NaN do without:
`a·b + c` is exact then.
"""

from __future__ import annotations

from math import inf

from tilewright.backends.llvm.conversions import odd_sum, two_sum
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.spelling import suffix

REACH = 200
"""Binary digits that c may be larger or smaller than the product: more than two numbers and their product have."""
SPLIT = 2.0**27 + 1
BIAS, EXPONENT, FRACTION = 1023, 0x7FF, 52
LEAST, SMALLEST_STEP = -1022, -1074
"""The exponents of the smallest normal and the smallest subnormal number."""
COARSE_BELOW = -800
"""Scales from which on no sum but 0 is so small that its result is subnormal: it has 2^-106 at least."""


def fused_multiply_add(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a·b + c rounded once, to nearest. Without an instruction float is added in double, where its product is exact."""
    k = a.kind
    if k.writer.target.has_fma:
        return k.fma(a, b, c)
    if k.element == "double":
        return fused_in_double(a, b, c)
    a, b, c = (k.with_element("double").cast("fpext", x) for x in (a, b, c))
    return k.cast("fptrunc", odd_sum(a * b, c))


def fused_in_double(a: Lanes, b: Lanes, c: Lanes, mode: str = "rn") -> Lanes:
    """a·b + c of double, rounded once by `mode`: to nearest (rn), towards zero (rz), down (rd), up (ru)."""
    k, w = a.kind, a.kind.writer
    name = f"tw_fused_{mode}_{suffix(k.type)}"
    parameters = [(k.type, parameter) for parameter in ("%a", "%b", "%c")]
    w.helper(name, parameters, k.type, lambda: _written(k("%a"), k("%b"), k("%c"), mode).name)
    return k(w.call(k.type, name, [(k.type, x.name) for x in (a, b, c)]))


def _written(a: Lanes, b: Lanes, c: Lanes, mode: str) -> Lanes:
    k, product = a.kind, a * b
    has_power = a.differs(0.0) & b.differs(0.0) & (abs(a) < inf) & (abs(b) < inf)
    # Where a·b overflows, and is no infinity, c decides: it is infinity or NaN if this number is taken at all.
    plain = k.select(has_power, c + c, product + c)
    total, tail, scale = _summed(a, b, c)
    found = _rounded(total, tail, scale, mode)
    if mode == "rd":  # a sum of zeros with two signs, or of numbers that cancel, is -0
        plain = k.select(plain.equals(0.0) & product.bits.differs(c.bits), -0.0, plain)
        found = k.select(total.equals(0.0), -0.0, found)
    return k.select(has_power & (abs(c) < inf), found, plain)


def _summed(a: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The sum and what is missing, at a scale, and the exponent of that."""
    k = a.kind
    (x, x_power), (y, y_power), (z, z_power) = map(_parts, (a, b, c))
    scale = x_power + y_power
    integers = scale.kind
    distance = integers.maximum(integers.minimum(z_power - scale, REACH), -REACH)
    scale = integers.maximum(scale, z_power - REACH)
    z = k.select(c.equals(0.0), 0.0, z) * _power(k, distance)
    high, low = _two_product(x, y)
    near, lost = two_sum(z, low)
    total, rest = two_sum(high, near)
    return *two_sum(total, odd_sum(lost, rest)), scale


def _rounded(total: Lanes, tail: Lanes, scale: Lanes, mode: str) -> Lanes:
    """`total + tail` times 2^scale, rounded once."""
    k = total.kind
    low_scale = scale.kind.minimum(scale, COARSE_BELOW)
    is_coarse = abs(total) <= _power(k, LEAST - low_scale)
    step = k.with_sign_of(_power(k, SMALLEST_STEP + FRACTION - low_scale), total)
    magic = k.select(is_coarse, step, 0.0)
    stepped, lost = two_sum(magic, total)
    last = odd_sum(lost, tail)
    rounded = stepped + last
    half = scale.shift_signed(1)
    found = (rounded - magic) * _power(k, half) * _power(k, scale - half)
    found = k.with_sign_of(found, total)
    if mode == "rn":
        return found
    missing = k.select(abs(found) < inf, last - (rounded - stepped), -found)
    return _moved(found, missing, mode)


def _moved(nearest: Lanes, missing: Lanes, mode: str) -> Lanes:
    """The number rounded by `mode`, by the nearest one and the sign of what is missing."""
    k, bits = nearest.kind, nearest.bits
    falls, rises, is_negative = missing < 0.0, missing > 0.0, bits < 0
    match mode:
        case "rd":
            step = bits.kind.select(falls, bits.kind.select(is_negative, 1, -1), 0)
        case "ru":
            step = bits.kind.select(rises, bits.kind.select(is_negative, -1, 1), 0)
        case _:
            inwards = k.flags.select(is_negative, rises, falls)
            step = bits.kind.select(inwards, -1, 0)
    return k.from_bits(bits + step)


def _parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """A number of 1 to 2 with the sign of x, and the exponent that x has besides; of 0 any number."""
    k, is_tiny = x.kind, abs(x) < 2.0**LEAST
    bits = k.select(is_tiny, x * 2.0**64, x).bits
    exponent = ((bits >> FRACTION) & EXPONENT) - bits.kind.select(is_tiny, BIAS + 64, BIAS)
    fraction = bits & ~(EXPONENT << FRACTION)
    return k.from_bits(fraction | (BIAS << FRACTION)), exponent


def _power(k: LaneType, exponent: Lanes) -> Lanes:
    return k.from_bits((exponent + BIAS) << FRACTION)


def _two_product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded product, and what is missing from the exact one (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = map(_halves, (a, b))
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Lanes) -> tuple[Lanes, Lanes]:
    """Two numbers of at most 26 digits with this sum (Veltkamp)."""
    shifted = a * SPLIT
    high = shifted - (shifted - a)
    return high, a - high
