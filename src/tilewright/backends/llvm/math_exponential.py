"""exp and functions based on it: exp2, exp10, expm1, sigmoid, sinh, cosh, tanh.

    exp(x) = 2ⁿ · e^r    n = round(x / ln 2),  r = x - n·ln 2 in two steps,  |r| ≤ ln 2 / 2

`t = x / ln 2 + MAGIC` rounds to an integer and leaves it in t's low bits, so that a shift makes 2ⁿ; AVX-512 scales in
one instruction. Results are correct down to the denormals.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.llvm import coefficients, math_powers, segment_tables
from tilewright.backends.llvm.lanes import Lanes
from tilewright.backends.llvm.math_powers import LOG2_E
from tilewright.backends.llvm.math_registers import by_registers, has_scaling, has_segments, odd_by_eighths


@dataclass(frozen=True)
class ExpTable:
    """Constants of one format. The high parts have enough zero bits that n · high is exact."""

    mantissa_bits: int
    one: int
    magic: float
    ln2_high: float
    ln2_low: float
    lowest: float
    highest: float
    expm1_highest: float
    exp: tuple[float, ...]
    exp2: tuple[float, ...]


TABLES = {
    "float": ExpTable(
        mantissa_bits=23,
        one=0x3F800000,
        magic=12582912.0,  # 1.5 · 2²³
        ln2_high=0.693359375,
        ln2_low=-2.12194440054690583e-4,
        lowest=-104.0,
        highest=90.0,
        expm1_highest=89.0,
        exp=coefficients.EXP_FLOAT,
        exp2=coefficients.EXP2_FLOAT,
    ),
    "double": ExpTable(
        mantissa_bits=52,
        one=0x3FF0000000000000,
        magic=6755399441055744.0,  # 1.5 · 2⁵²
        ln2_high=0.693147180559663,
        ln2_low=2.8235290563031577e-13,
        lowest=-746.0,
        highest=711.0,
        expm1_highest=710.0,
        exp=coefficients.EXP_DOUBLE,
        exp2=coefficients.EXP2_DOUBLE,
    ),
}
NEAREST = 8
"""To nearest, ties to even, and no exceptions, as AVX-512 encodes it."""
TANH_LIMIT, TANH_LIMIT_DOUBLE = 9.02, 20.0
"""The arguments, of float and of double, from which on tanh is 1."""
TANH_FAR = 0.95
"""The argument from which on the error of 1 - 2 / (1 + e^2x) is as small as that of a polynomial."""
LOG2_10 = 3.321928094887362
LN_10 = 2.302585092994046
LG2_HIGH = 0.30102999566361177  # log10(2), 41 bits
LG2_LOW = 3.694239077158931e-13


def exp(x: Lanes) -> Lanes:
    """e^x; 1 ulp."""
    return math_powers.exp(x) if math_powers.has_powers(x.kind) else _exp_scaled(x, 0)


def _exp_scaled(x: Lanes, shift: int) -> Lanes:
    """e^x · 2^shift, without overflow in between."""
    n, r = reduce_exp(_clamped(x))
    p = _exp_near_zero(r)
    return scale_by_power(p, n + shift if shift else n)


def exp_of_sum(high: Lanes, low: Lanes) -> Lanes:
    """e^(high + low) for |low| much below |high|; high may be infinite (low must be finite)."""
    n, r = reduce_exp(_clamped(high))
    return scale_by_power(_exp_near_zero(r + low), n)


def exp2(x: Lanes) -> Lanes:
    """2^x; 1.1 ulp, 1 where products are not rounded."""
    k, table = x.kind, TABLES[x.kind.element]
    if math_powers.has_powers(k):
        return math_powers.exp2(x)
    if has_scaling(k):
        n = k.call("llvm.roundeven", x)
        r = by_registers(k, "reduce", [x.name], immediate=NEAREST)  # 0 for infinite x
        return scale_by_power(k.fma(r, k.polynomial(r, table.exp2), 1.0), n)
    x = _within(x, -150.0 if k.element == "float" else -1080.0, 129.0 if k.element == "float" else 1025.0)
    n = (x + table.magic) - table.magic
    r = x - n
    return scale_by_power(k.fma(r, k.polynomial(r, table.exp2), 1.0), n)


def exp2_of_product(a: Lanes, b: Lanes, less: int) -> Lanes:
    """2^(a·b - less) where it is a normal number: no edge cases. Fused instructions do not round the product."""
    k, table = a.kind, TABLES[a.kind.element]
    if k.writer.target.has_fma:
        rounded = k.fma(a, b, table.magic)
        r = k.fma(a, b, table.magic - rounded)
    else:
        product = a * b
        rounded = product + table.magic
        r = product - (rounded - table.magic)
    power = k.from_bits((rounded.bits << table.mantissa_bits) + (table.one - (less << table.mantissa_bits)))
    return k.fma(r, k.polynomial(r, table.exp2), 1.0) * power


def exp10(x: Lanes) -> Lanes:
    """10^x for double; 1 ulp."""
    k, table = x.kind, TABLES[x.kind.element]
    x = _within(x, -326.0, 309.0)
    n = k.fma(x, LOG2_10, table.magic) - table.magic
    r = k.fma(n, -LG2_LOW, k.fma(n, -LG2_HIGH, x)) * LN_10
    return scale_by_power(_exp_near_zero(r), n)


def expm1(x: Lanes) -> Lanes:
    """e^x - 1, without cancellation near 0; 1 ulp. Halved until the end, so that 2ⁿ does not overflow."""
    k = x.kind
    return k.with_sign_of(_expm1_halved(_within(x, -40.0, TABLES[k.element].expm1_highest)) * 2.0, x)


def _expm1_halved(x: Lanes) -> Lanes:
    """(e^x - 1) / 2: of s·(1 + r + q) - ½, r large and q small, what the sum of the large terms loses is added to q."""
    k, table = x.kind, TABLES[x.kind.element]
    n = k.fma(x, LOG2_E, table.magic) - table.magic
    exact = k.fma(n, -table.ln2_high, x)
    r = k.fma(n, -table.ln2_low, exact)
    low = k.fma(n, -table.ln2_low, exact - r)
    q = k.fma(r * r, k.polynomial(r, table.exp), k.fma(r, low, low))
    s = _power_of_two(n - 1.0)
    start = s - 0.5
    total = k.fma(s, r, start)
    return total + k.fma(s, q, k.fma(s, r, start - total))


def sigmoid(x: Lanes) -> Lanes:
    """1 / (1 + e^-x), below 0 as e^x / (1 + e^x); 3.1 ulp, in double 2.5."""
    k = x.kind
    small = math_powers.exp(-abs(x), is_negative=True) if math_powers.has_powers(k) else exp(-abs(x))
    return k.select(x < 0.0, small, 1.0) / (small + 1.0)


def tanh(x: Lanes) -> Lanes:
    """The hyperbolic tangent; 1 ulp, in double 2. By segments with AVX-512; in double (e^2x - 1) / (e^2x + 1)."""
    k, t = x.kind, abs(x)
    if has_segments(k, 16):
        return odd_by_eighths(x, segment_tables.TANH_32, segment_tables.TANH_32_MIDDLES, limit=TANH_LIMIT)
    if k.element == "float":
        near, far = _tanh_near_zero(t), _tanh_far(k.minimum(TANH_LIMIT, t))
        return k.with_sign_of(k.select(t < TANH_FAR, near, far), x)
    half = _expm1_halved(k.minimum(TANH_LIMIT_DOUBLE, t) * 2.0)
    return k.with_sign_of(_over_one_more(half, half), x)


def _tanh_near_zero(t: Lanes) -> Lanes:
    """t + t³·(P(t²) - ¼) for float: without the quarter, P is so small that its rounding does not count."""
    k, z = t.kind, t * t
    cube = t * z
    return t + k.fma(cube, k.polynomial(z, coefficients.TANH_FLOAT), cube * -0.25)


def _tanh_far(t: Lanes) -> Lanes:
    """1 - 2 / (1 + e^2t) for float, with e^2t = s + s·q and a power of two s, so that the sum rounds only once."""
    k, table = t.kind, TABLES["float"]
    rounded = k.fma(t, 2 * LOG2_E, table.magic)
    n = rounded - table.magic
    r = k.fma(n, -table.ln2_low / 2, k.fma(n, -table.ln2_high / 2, t))
    q = r * k.polynomial(r, coefficients.EXPM1_TWICE_FLOAT)
    s = k.from_bits((rounded.bits << table.mantissa_bits) + table.one)
    return 1.0 - 2.0 / k.fma(s, q, s + 1.0)


def _over_one_more(x: Lanes, y: Lanes) -> Lanes:
    """x / (1 + y) of y ≥ 0, where x is y or half of it; what the sum loses is put right.

    1 / (1 + y) = 1 - y / (1 + y)
    """
    k = x.kind
    more = y + 1.0
    lost = k.select(y > 1.0, (y - more) + 1.0, (1.0 - more) + y)
    quotient = x / more
    inverse = 1.0 - (quotient if x is y else quotient + quotient)
    return quotient - quotient * (lost * inverse)


def sinh(x: Lanes) -> Lanes:
    """(e^x - e^-x) / 2; 2 ulp."""
    k, magnitude = x.kind, abs(x)
    half = _exp_scaled(magnitude, -1)
    m = _expm1_halved(k.minimum(1.5, magnitude))
    near_zero = m + _over_one_more(m, m + m)
    return k.with_sign_of(k.select(magnitude < 1.0, near_zero, half - 0.25 / half), x)


def cosh(x: Lanes) -> Lanes:
    """(e^x + e^-x) / 2; 2 ulp in double."""
    half = _exp_scaled(abs(x), -1)
    return half + 0.25 / half


def reduce_exp(x: Lanes) -> tuple[Lanes, Lanes]:
    """(n, r) with x = n·ln 2 + r."""
    k, table = x.kind, TABLES[x.kind.element]
    n = k.fma(x, LOG2_E, table.magic) - table.magic
    return n, k.fma(n, -table.ln2_low, k.fma(n, -table.ln2_high, x))


def _exp_near_zero(r: Lanes) -> Lanes:
    """e^r = 1 + (r + r²·P(r)). With fused instructions 1 + r·(1 + r·P(r)): one fewer, and better."""
    k = r.kind
    p = k.polynomial(r, TABLES[k.element].exp)
    if k.element == "float" and k.writer.target.has_fma:
        return k.fma(k.fma(p, r, 1.0), r, 1.0)
    return k.fma(p, r * r, r) + 1.0


def _clamped(x: Lanes) -> Lanes:
    table = TABLES[x.kind.element]
    return _within(x, table.lowest, table.highest)


def _within(x: Lanes, low: float, high: float) -> Lanes:
    """x limited to a range beyond which the result is 0 or infinite; NaN stays."""
    k = x.kind
    return k.maximum(low, k.minimum(high, x))


def scale_by_power(value: Lanes, n: Lanes) -> Lanes:
    """value · 2ⁿ for integral n, rounded once when the result is denormal. |n| < 2 · (largest exponent)."""
    k = value.kind
    if has_scaling(k):
        return by_registers(k, "scalef", [value.name, n.name])
    magic = TABLES[k.element].magic
    half = k.fma(n, 0.5, magic) - magic
    return value * _power_of_two(half) * _power_of_two(n - half)


def _power_of_two(n: Lanes) -> Lanes:
    """2ⁿ for integral n with a normal result."""
    k, table = n.kind, TABLES[n.kind.element]
    return k.from_bits(((n + table.magic).bits << table.mantissa_bits) + table.one)
