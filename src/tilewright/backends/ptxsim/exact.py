"""Sums and products in float64 that may be rounded once more: rounded to odd, so that the second rounding is exact.

    odd_sum(a * b, c)        # of float32 operands: rounds to float32 as the exact a*b + c does

A number rounded to odd keeps in its last bit that something was cut off. With at least two bits more than the target
format no rounding of it can go wrong.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tilewright.backends.ptxsim.value_types import Array

SPLIT = float((1 << 27) + 1)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum, and what is missing from the exact one."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product, and what is missing from the exact one, where nothing over- or underflows."""
    product = a * b
    a_high, b_high = a * SPLIT - (a * SPLIT - a), b * SPLIT - (b * SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def to_odd(values: Array, missing: Array) -> Array:
    """Numbers rounded to nearest as numbers rounded to odd, given the sign of what is missing from them."""
    bits = values.view(np.int64)
    inexact = (missing != 0) & np.isfinite(missing) & np.isfinite(values) & (bits & 1 == 0)
    if not inexact.any():
        return values
    away = (missing > 0) == (values > 0)
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)


def odd_sum(a: Array, b: Array, *, down: bool = False) -> Array:
    """The sum, rounded to odd; `down`: terms that cancel give -0, as where sums are rounded down."""
    a, b = np.broadcast_arrays(a, b)
    total = to_odd(*two_sum(np.ascontiguousarray(a, np.float64), np.ascontiguousarray(b, np.float64)))
    if not down:
        return total
    return np.where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)


def odd_quotient(a: Array, b: Array) -> Array:
    """The quotient of numbers of float32, rounded to odd."""
    quotient = a / b
    product, error = two_product(quotient, np.broadcast_to(b, quotient.shape))
    return to_odd(quotient, ((a - product) - error) * np.sign(b))


def odd_root(a: Array) -> Array:
    """The square root of numbers of float32, rounded to odd."""
    root = np.sqrt(a)
    square, error = two_product(root, root)
    return to_odd(root, (a - square) - error)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a*b + c of float64, rounded once to nearest."""
    a, b, c = (np.ascontiguousarray(x, np.float64) for x in np.broadcast_arrays(a, b, c))
    high, low = two_product(a, b)
    total, rest = two_sum(c, low)
    upper, lower = two_sum(high, total)
    result = upper + odd_sum(rest, lower)
    plain = a * b + c
    # Where splitting may over- or underflow, exact fractions; where operands are special, IEEE's own rules.
    with np.errstate(all="ignore"):
        sizes = np.abs(np.stack([a, b, a * b, c]))
    risky = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    risky &= ((sizes > 1e290) | ((sizes < 1e-250) & (sizes > 0))).any(axis=0) | ((a * b == 0) & (a != 0) & (b != 0))
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
    result = np.where(special, plain, result)
    for place in np.flatnonzero(risky & ~special):
        result[place] = _fused_exactly(float(a[place]), float(b[place]), float(c[place]))
    return result


def _fused_exactly(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
