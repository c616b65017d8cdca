"""Logarithms and functions based on them: log, log2, log10, log1p, asinh, acosh, atanh, pow, cbrt.

    x = 2^e · (1 + f) with 1 + f in [√½, √2):   log x = e·ln 2 + log(1 + f)

e comes from the bits of x - √½, so no comparison is needed to choose it. Denormals are scaled up first.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.llvm import coefficients
from tilewright.backends.llvm.conversions import two_sum
from tilewright.backends.llvm.lanes import Lanes
from tilewright.backends.llvm.math_exponential import LG2_HIGH, LG2_LOW, TABLES, exp, exp2, exp_of_sum
from tilewright.backends.llvm.math_powers import LOG2_E

INFINITY = float("inf")
NAN = float("nan")


@dataclass(frozen=True)
class LogTable:
    """Constants of one format: `anchor` is 2^mantissa bits, `below_one` the bits of 1 less those of √½."""

    smallest_normal: float
    upscale_bits: int
    below_one: int
    bias: int
    anchor: float
    anchor_bits: int


TABLES_LOG = {
    "float": LogTable(2.0**-126, 25, 0x3F800000 - 0x3F3504F3, 127, 2.0**23, 0x4B000000),
    "double": LogTable(2.0**-1022, 54, 0x3FF0000000000000 - 0x3FE6A09E667F3BCD, 1023, 2.0**52, 0x4330000000000000),
}
LN2_HIGH, LN2_LOW = TABLES["double"].ln2_high, TABLES["double"].ln2_low
LN2 = 0.6931471805599453
LOG10_E = 0.4342944819032518
LOG10_E_TOP, LOG10_E_REST = 0.4342944920063019, -1.0103050052231684e-8
"""LOG10_E as a float, and the rest of it."""
LG2_TOP, LG2_REST = 0.301025390625, 4.605038981195214e-6
"""log10(2), 11 bits, and the rest of it."""
FAR = {"float": 2.0**30, "double": 2.0**60}
"""The argument by format from which on asinh and acosh are log(2x); squares of lower ones are finite."""
TWO_THIRDS = 2.0 / 3.0
TWO_THIRDS_LOW = 3.700743415417188e-17


def log(x: Lanes) -> Lanes:
    """The natural logarithm; 1 ulp."""
    return _with_edges(x, log_of_positive(x))


def log_of_positive(x: Lanes) -> Lanes:
    """The natural logarithm of a positive finite number."""
    k = x.kind
    e, f = _decomposed(x)
    if k.element == "float":
        square = f * f
        table = TABLES["float"]
        rest = k.fma(square * f, k.polynomial(f, coefficients.LOG_FLOAT), e * table.ln2_low)
        return k.fma(e, table.ln2_high, f + k.fma(square, -0.5, rest))
    high, low = _log_parts(f)
    return k.fma(e, LN2_HIGH, high + k.fma(e, LN2_LOW, low))


def log2(x: Lanes) -> Lanes:
    """The logarithm to base 2; 1 ulp, 3 in double."""
    return _with_edges(x, log2_of_positive(x))


def log2_of_positive(x: Lanes) -> Lanes:
    """The logarithm to base 2 of a positive finite number."""
    k = x.kind
    e, f = _decomposed(x)
    if k.element == "float":
        return k.fma(f, k.polynomial(f, coefficients.LOG2_FLOAT), f) + e
    high, low = _log_parts(f)
    return k.fma(high + low, LOG2_E, e)


def log10(x: Lanes) -> Lanes:
    """The logarithm to base 10; 1.75 ulp, 3 in double. In float no digit of e · LG2_TOP is lost, as that is short."""
    k = x.kind
    e, f = _decomposed(x)
    if k.element == "float":
        _, rest = _log_parts_of_float(f)
        rest = k.fma(f, LOG10_E_REST, k.fma(rest, LOG10_E, e * LG2_REST))
        return _with_edges(x, k.fma(e, LG2_TOP, k.fma(f, LOG10_E_TOP, rest)))
    high, low = _log_parts(f)
    return _with_edges(x, k.fma(e, LG2_HIGH, k.fma(high + low, LOG10_E, e * LG2_LOW)))


def log1p(x: Lanes) -> Lanes:
    """log(1 + x) without losing small x; 1 ulp, 2 in double.

    What the sum u = 1 + x rounds away counts for 1/u as much; 1 - f + f² is enough of 1 / (1 + f) for that.
    """
    k = x.kind
    u = x + 1.0
    table, format = TABLES_LOG[k.element], TABLES[k.element]
    biased = (u.bits + table.below_one) >> format.mantissa_bits
    f = k.from_bits(u.bits - ((biased - table.bias) << format.mantissa_bits)) - 1.0
    e = k.from_bits(biased | table.anchor_bits) - (table.anchor + table.bias)
    high, low = _log_parts(f) if k.element == "double" else _log_parts_of_float(f)
    inverse = k.fma(f, f, 1.0 - f) * k.from_bits((2 * table.bias - biased) << format.mantissa_bits)
    low = k.select(u < 2.0**60, low + (x - (u - 1.0)) * inverse, low)
    return k.with_sign_of(_with_edges(u, k.fma(e, format.ln2_high, high + k.fma(e, format.ln2_low, low))), x)


def asinh(x: Lanes) -> Lanes:
    """asinh; 2 ulp, 3 in double. Far from 0 it is log(2x), which is log1p(x) + log 2 in as many digits."""
    k, t = x.kind, abs(x)
    is_far = t >= FAR[k.element]
    square = t * t
    near = t + square / (k.call("llvm.sqrt", square + 1.0) + 1.0)
    return k.with_sign_of(_log1p_or_twice(near, t, is_far), x)


def acosh(x: Lanes) -> Lanes:
    """acosh; 2 ulp, 3 in double."""
    k, t = x.kind, x - 1.0
    near = t + k.call("llvm.sqrt", k.fma(t, t, t + t))
    return k.select(x >= 1.0, _log1p_or_twice(near, x, x >= FAR[k.element]), NAN)


def _log1p_or_twice(near: Lanes, far: Lanes, is_far: Lanes) -> Lanes:
    """log1p(near), or log(2·far) where that is asked for and 1 is nothing beside it."""
    k = near.kind
    return log1p(k.select(is_far, far, near)) + k.select(is_far, LN2, 0.0)


def atanh(x: Lanes) -> Lanes:
    """atanh; 1.9 ulp, 3 in double."""
    k, t = x.kind, abs(x)
    return k.with_sign_of(log1p((t + t) / (1.0 - t)) * 0.5, x)


def cbrt(x: Lanes) -> Lanes:
    """The cube root, for double: 2^(log2(x)/3) and one Newton step; 2 ulp."""
    k, t = x.kind, abs(x)
    y = exp2(log2(t) / 3.0)
    better = y - (y - t / (y * y)) / 3.0
    finite = k.select(k.compare("one", t, 0.0), better, t)
    return k.with_sign_of(k.select(t < INFINITY, finite, t), x)


def pow(x: Lanes, y: Lanes) -> Lanes:
    """x^y with C's rules for signs, zeros, infinities and NaN, for double; 2 ulp: the logarithm has over 60 bits."""
    k, base = x.kind, abs(x)
    high, low = _log_in_two_parts(base)
    product = y * high
    rest = k.fma(y, low, -_product_error(y, high, product))
    finite_rest = k.select(abs(rest) < 1.0, rest, 0.0)  # NaN or large only where the product overflows
    return with_signs(x, y, exp_of_sum(product, finite_rest))


def pow_in_double(x: Lanes, y: Lanes) -> Lanes:
    """x^y for operands and results of float, computed in double."""
    return with_signs(x, y, exp(y * log(abs(x))))


def with_signs(x: Lanes, y: Lanes, magnitude: Lanes) -> Lanes:
    k, base = x.kind, abs(x)
    half = y * 0.5
    is_integral = y.equals(k.call("llvm.trunc", y))
    is_odd = is_integral & half.differs(k.call("llvm.trunc", half))
    result = k.select(base.equals(1.0) & abs(y).equals(INFINITY), 1.0, magnitude)
    result = k.select((x < 0.0) & ~is_integral & (base < INFINITY), NAN, result)
    result = k.select(is_odd, k.with_sign_of(result, x), result)
    return k.select(x.equals(1.0) | y.equals(0.0), 1.0, result)


def _decomposed(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, f) of a positive finite x."""
    k, table = x.kind, TABLES_LOG[x.kind.element]
    mantissa_bits = TABLES[k.element].mantissa_bits
    is_tiny = x < table.smallest_normal
    bits = k.select(is_tiny, x * 2.0**table.upscale_bits, x).bits
    biased = (bits + table.below_one) >> mantissa_bits
    f = k.from_bits(bits - ((biased - table.bias) << mantissa_bits)) - 1.0
    offset = table.anchor + table.bias
    e = k.from_bits(biased | table.anchor_bits) - k.select(is_tiny, offset + table.upscale_bits, offset)
    return e, f


def _log_parts(f: Lanes) -> tuple[Lanes, Lanes]:
    """log(1 + f) in double as f and a small rest: with s = f / (2 + f), log(1 + f) = 2s + s³·P(s²) and 2s = f - s·f."""
    k = f.kind
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    r = z * k.polynomial(z, coefficients.LOG_DOUBLE)
    return f, k.fma(s, half_square + r, -half_square)


def _log_parts_of_float(f: Lanes) -> tuple[Lanes, Lanes]:
    """log(1 + f) as f and the rest of the series."""
    k, square = f.kind, f * f
    return f, k.fma(square, -0.5, square * f * k.polynomial(f, coefficients.LOG_FLOAT))


def _log_in_two_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """log x as a sum of two doubles; 0 and infinity give an infinite first part."""
    k = x.kind
    e, f = _decomposed(x)
    below = f + 2.0
    below_low = f - (below - 2.0)
    s = f / below
    s_low = (_product_error(s, below, f) - s * below_low) / below
    z, z_low = _product(s, s)
    z_low = k.fma(s + s, s_low, z_low)
    # 2/3·z in two parts, then the rest of the series, which is small
    third, third_low = _product(z, k(TWO_THIRDS))
    third_low = third_low + k.fma(z, TWO_THIRDS_LOW, z_low * TWO_THIRDS)
    third_low = k.fma(z * z, k.polynomial(z, coefficients.LOG_TAIL_DOUBLE), third_low)
    cubic, cubic_low = _product(s, third)
    cubic_low = cubic_low + k.fma(s, third_low, s_low * third)
    high, low = two_sum(e * LN2_HIGH, s + s)
    high, cubic_error = two_sum(high, cubic)
    low = low + cubic_error + (cubic_low + (s_low + s_low)) + e * LN2_LOW
    total = high + low
    low = (high - total) + low
    edge = _with_edges(x, total)
    return edge, k.select(abs(edge) < INFINITY, low, 0.0)


def _product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """a·b and its rounding error."""
    product = a * b
    return product, -_product_error(a, b, product)


def _product_error(a: Lanes, b: Lanes, product: Lanes) -> Lanes:
    """product - a·b, exactly. Without FMA the factors are split into halves of 26 bits."""
    k = a.kind
    if k.writer.target.has_fma:
        return k.fma(-a, b, product)
    splitter = 134217729.0
    a_high, b_high = (x * splitter - (x * splitter - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return (((product - a_high * b_high) - a_low * b_high) - a_high * b_low) - a_low * b_low


def _with_edges(x: Lanes, result: Lanes) -> Lanes:
    """-inf at 0, NaN below, infinity and NaN as they are."""
    k = x.kind
    result = k.select(x < INFINITY, result, x)
    result = k.select(x.equals(0.0), -INFINITY, result)
    return k.select(x < 0.0, NAN, result)
