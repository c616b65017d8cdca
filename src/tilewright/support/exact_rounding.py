"""Exact rounding: numbers into any float format, by any rounding mode, with one rounding.

    narrow(np.array([1.0, 448.0, 500.0]), FORMATS["e4m3"], "rn", saturate=True)      # 0x38, 0x7E, 0x7E
    rounded("add", "rm", [np.float32([1]), np.float32([2.0**-30])])                  # the float below the exact sum

A result that is not exact in float64 is rounded to odd there: an odd last bit then shows that bits were cut off. With
at least two bits more than the target format, a second rounding of that number gives the correctly rounded result.

Modes are PTX's: rn (to nearest, ties to even), rna (ties away from zero), rz (towards zero), rm (down), rp (up).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

Array: TypeAlias = Any
"""A NumPy array or NumPy scalar."""

U64 = np.uint64
MODES = ("rn", "rz", "rm", "rp")
SPLIT = float((1 << 27) + 1)

# --- formats ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A float format.

    Attributes:
        exponent, mantissa: their bits.
        nan: the bits of the NaN that operations make, or None: the format has none.
        largest: the bits of the largest finite number.
        infinite: the bits of infinity, or None.
        zeros: bits below that are stored, and zero (tf32).
    """

    exponent: int
    mantissa: int
    bias: int
    nan: int | None
    largest: int
    infinite: int | None
    zeros: int = 0

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def storage(self) -> np.dtype[np.uint64]:
        size = self.bits + self.zeros
        return np.dtype(f"u{1 if size <= 8 else 2 if size <= 16 else 4 if size <= 32 else 8}")


def _ieee(exponent: int, mantissa: int, nan: int, zeros: int = 0) -> Format:
    infinite = ((1 << exponent) - 1) << mantissa
    return Format(exponent, mantissa, (1 << (exponent - 1)) - 1, nan, infinite - 1, infinite, zeros)


FORMATS: dict[str, Format] = {
    "f64": _ieee(11, 52, 0x7FF8 << 48),
    "f32": _ieee(8, 23, 0x7FFFFFFF),
    "tf32": _ieee(8, 10, 0x3FFFF, 13),
    "f16": _ieee(5, 10, 0x7FFF),
    "bf16": _ieee(8, 7, 0x7FFF),
    "e5m2": _ieee(5, 2, 0x7F),
    "e4m3": Format(4, 3, 7, 0x7F, 0x7E, None),
    "e3m2": Format(3, 2, 3, None, 0x1F, None),
    "e2m3": Format(2, 3, 1, None, 0x1F, None),
    "e2m1": Format(2, 1, 1, None, 0x07, None),
}
NUMPY: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "ue8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "e3m2": np.dtype(ml_dtypes.float6_e3m2fn),
    "e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
}
"""The dtypes that read the bits of formats."""


def narrow(values: Array, target: Format, mode: str = "rn", *, saturate: bool = False) -> Array:
    """Numbers of float64 as bits of a format, rounded once.

    Args:
        values: float64; results that are not exact there are rounded to odd.
        saturate: what is too large, infinities included, becomes the largest finite number.
    """
    bits = np.ascontiguousarray(values, np.float64).view(U64)
    negative = bits >> U64(63) != 0
    exponent = ((bits >> U64(52)) & U64(0x7FF)).astype(np.int64)
    fraction = bits & U64((1 << 52) - 1)
    significand = np.where(exponent > 0, fraction | U64(1 << 52), fraction)
    above_least = exponent - 1024 + target.bias  # that of normal numbers; what is below it is subnormal
    drop = np.minimum(52 - target.mantissa + np.maximum(0, -above_least), 63).astype(U64)
    kept, rest = significand >> drop, significand & ((U64(1) << drop) - U64(1))
    kept = kept + _rounds_up(mode, kept, rest, drop, negative)
    # A mantissa that overflows carries into the exponent by itself.
    magnitude = (np.maximum(0, above_least).astype(U64) << U64(target.mantissa)) + kept
    magnitude = _limited(magnitude, exponent == 0x7FF, target, mode, negative=negative, saturate=saturate)
    result = magnitude | (negative.astype(U64) << U64(target.bits - 1))
    is_nan = (exponent == 0x7FF) & (fraction != 0)
    result = np.where(is_nan, U64(target.largest if target.nan is None else target.nan), result)
    return (result << U64(target.zeros)).astype(target.storage)


def _rounds_up(mode: str, kept: Array, rest: Array, drop: Array, negative: Array) -> Array:
    half = U64(1) << (np.maximum(drop, U64(1)) - U64(1))
    if mode == "rn":
        up = (rest > half) | ((rest == half) & (kept & U64(1) != 0))
    elif mode == "rna":
        up = rest >= half
    elif mode == "rz":
        up = np.zeros(rest.shape, bool)
    else:
        up = (rest != 0) & (negative if mode == "rm" else ~negative)
    return up.astype(U64)


def _limited(magnitude: Array, special: Array, target: Format, mode: str, *, negative: Array, saturate: bool) -> Array:
    """Too large numbers: infinity, or the largest finite one where rounding goes towards zero or is to saturate."""
    over = (magnitude > U64(target.largest)) | special
    if not over.any():
        return magnitude
    largest = U64(target.largest)
    if saturate or (target.infinite is None and target.nan is None):
        return np.where(over, largest, magnitude)
    beyond = U64(target.infinite if target.infinite is not None else target.nan or 0)
    towards_zero = {"rz": np.ones(1, bool), "rm": ~negative, "rp": negative}.get(mode, np.zeros(1, bool))
    return np.where(over, np.where(towards_zero & ~special, largest, beyond), magnitude)


def widen(bits: Array, name: str) -> Array:
    """Bits of a format as float32 (float64 stays): always exact."""
    kind = NUMPY[name]
    if kind.itemsize == 1:
        return _numbers_of_codes(name)[bits]
    found = np.ascontiguousarray(bits).view(kind)
    return found.astype(np.float32) if kind.itemsize == 2 else found


@cache
def _numbers_of_codes(name: str) -> Array:
    """The number of each byte, as float32; bits that do not belong to the format count for nothing."""
    bits = FORMATS[name].bits if name in FORMATS else 8
    codes = (np.arange(256) & ((1 << bits) - 1)).astype(np.uint8)
    return codes.view(NUMPY[name]).astype(np.float32)


def narrow_nearest(values: Array, name: str) -> Array:
    """Numbers of float32 or float64 as bits of a format, rounded to nearest; NaNs become the format's one."""
    if name in ("f16", "bf16", "f32", "f64"):
        found = nearest_float(np.ascontiguousarray(values), NUMPY[name])
        return canonical(found, name).view(f"u{found.dtype.itemsize}")
    return narrow(values.astype(np.float64), FORMATS[name])


def canonical(values: Array, name: str) -> Array:
    """The numbers, with every NaN the one that operations make."""
    nans = values != values
    if not nans.any():
        return values
    bits = values.view(f"u{values.dtype.itemsize}")
    return np.where(nans, bits.dtype.type(FORMATS[name].nan or 0), bits).view(values.dtype)


# --- NumPy's dtypes -----------------------------------------------------------------------------------------------


def is_native(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy itself computes with these floats."""
    return dtype.kind == "f" and dtype.itemsize >= 2 and dtype.type.__module__ == "numpy"


def nearest_float(a: Array, dtype: np.dtype[Any]) -> Array:
    """The floats `a` rounded to nearest even in `dtype`, once; beyond its range infinity, or NaN if there is none."""
    if a.dtype == np.float64 and not is_native(dtype):
        single = a.astype(np.float32)
        a = to_odd(single, a - single.astype(np.float64))
    return a.astype(dtype)


def convert_float(a: Array, dtype: np.dtype[Any]) -> Array:
    """The floats `a` rounded to nearest even in `dtype`, once; 8-bit floats saturate."""
    with np.errstate(all="ignore"):
        rounded = nearest_float(a, dtype)
        if dtype.itemsize > 1:
            return rounded
        wide = a.astype(np.float32)
        beyond = ~np.isfinite(rounded.astype(np.float32)) & ~np.isnan(wide)
        return np.where(beyond, np.copysign(np.float32(largest_finite(dtype)), wide).astype(dtype), rounded)


@cache
def largest_finite(dtype: np.dtype[Any]) -> Any:
    """The largest finite number of a float format, as a scalar of that format."""
    return ml_dtypes.finfo(dtype).max


def towards_zero(exact: Array, dtype: np.dtype[Any]) -> Array:
    """Floats rounded towards zero in `dtype`; infinity stays, or becomes the largest number where there is none."""
    rounded = nearest_float(exact, dtype)
    wide, found = exact.astype(np.float64), rounded.astype(np.float64)
    beyond = np.isfinite(wide) & ((np.abs(found) > np.abs(wide)) | ~np.isfinite(found))
    beyond = beyond | (np.isinf(wide) & np.isnan(found))
    code = np.dtype(f"u{dtype.itemsize}")
    bits = np.asarray(rounded).view(code)
    largest = np.asarray(largest_finite(dtype)).view(code)
    sign = np.signbit(wide).astype(code) << code.type(code.itemsize * 8 - 1)
    back = np.where(np.isfinite(found), bits - code.type(1), largest | sign)
    back = np.where(back == _negative_zero(dtype), code.type(0), back)
    return np.where(beyond, back, bits).astype(code).view(dtype)[()]


def _negative_zero(dtype: np.dtype[Any]) -> int:
    """The code of NaN in formats where it takes the place of -0; 0 in others."""
    code = int(np.array(np.nan, dtype).view(f"u{dtype.itemsize}"))
    return code if code == 1 << (dtype.itemsize * 8 - 1) else 0


# --- rounding to odd ----------------------------------------------------------------------------------------------


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
    bits = values.view(np.dtype(f"u{values.dtype.itemsize}"))
    inexact = (missing != 0) & np.isfinite(missing) & np.isfinite(values) & (bits & bits.dtype.type(1) == 0)
    if not inexact.any():
        return values
    infinity = values.dtype.type(np.inf)
    return np.where(inexact, np.nextafter(values, np.where(missing > 0, infinity, -infinity)), values)


def odd_sum(a: Array, b: Array, *, down: bool = False) -> Array:
    """The sum, rounded to odd; `down`: terms that cancel give -0, as where sums are rounded down."""
    total = to_odd(*two_sum(a, b))
    if not down:
        return total
    return np.where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)


def _odd_quotient(a: Array, b: Array) -> Array:
    quotient = a / b
    product, error = two_product(quotient, b)
    return to_odd(quotient, ((a - product) - error) * np.sign(b))


def _odd_root(a: Array) -> Array:
    root = np.sqrt(a)
    square, error = two_product(root, root)
    return to_odd(root, (a - square) - error)


_ODD: dict[str, Callable[..., Array]] = {
    "add": lambda down, a, b: odd_sum(a, b, down=down),
    "sub": lambda down, a, b: odd_sum(a, -b, down=down),
    "mul": lambda down, a, b: a * b,
    "div": lambda down, a, b: _odd_quotient(a, b),
    "sqrt": lambda down, a: _odd_root(a),
    "fma": lambda down, a, b, c: odd_sum(a * b, c, down=down),
}


def odd(operation: str, operands: Sequence[Array], mode: str = "rn") -> Array:
    """The result of `operation` on numbers of float32 or less, in float64: exact, or rounded to odd."""
    return _ODD[operation](mode == "rm", *[x.astype(np.float64) for x in operands])


def odd_double(a: Array) -> Array:
    """Integers as doubles; those of more than 53 bits rounded to odd."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64)
    low = a.dtype.type(0x7FF)
    kept = (a & ~low) | np.where(a & low, low + a.dtype.type(1), a.dtype.type(0))
    return np.where(np.abs(a.astype(np.float64)) >= 2.0**53, kept, a).astype(np.float64)


# --- arithmetic ---------------------------------------------------------------------------------------------------


def fused(a: Array, b: Array, c: Array) -> Array:
    """a*b + c of float64, rounded once to nearest."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        plain = a * b + c
        high, low = two_product(a, b)
        total, rest = two_sum(c, low)
        upper, lower = two_sum(high, total)
        result = np.asarray(upper + odd_sum(rest, lower))
        sizes = np.abs(np.stack([a, b, a * b, c]))
        special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
        # Where splitting may over- or underflow, exact fractions; where operands are special, IEEE's own rules.
        risky = ((sizes > 1e290) | ((sizes < 1e-250) & (sizes > 0))).any(axis=0) | (a * b == 0)
    result = np.where(special, plain, result)
    for place in zip(*np.nonzero(np.atleast_1d(risky & ~special)), strict=True):
        at = place if result.ndim else ()
        result[at] = _fused_exactly(float(a[at]), float(b[at]), float(c[at]))
    return result[()]


def _fused_exactly(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


NEAREST: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
    "fma": fused,
}
"""Operations, rounded to nearest; `fma` of float64 only."""
_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def rounded(operation: str, mode: str, operands: Sequence[Array]) -> Array:
    """One of `NEAREST`, rounded by one of `MODES`; operands and results are all float32 or all float64."""
    if all(operand.dtype == np.float32 for operand in operands):
        if mode == "rn" and operation != "fma":
            return NEAREST[operation](*operands)
        exact = odd(operation, operands, mode)
        found = exact.astype(np.float32) if mode == "rn" else narrow(exact, FORMATS["f32"], mode).view(np.float32)
        return np.where(found != found, np.float32(np.nan), found).reshape(np.shape(exact))[()]
    nearest = NEAREST[operation](*operands)
    if mode == "rn":
        return nearest
    flat = [np.broadcast_to(a, np.shape(nearest)).ravel() for a in operands]
    moved = [_moved(operation, mode, values, value) for *values, value in zip(*flat, np.ravel(nearest), strict=True)]
    return np.array(moved, nearest.dtype).reshape(np.shape(nearest))[()]


def _moved(operation: str, mode: str, operands: Sequence[Any], nearest: Any) -> Any:
    """The nearest result of float64, moved one step where it lies on the wrong side of the exact one."""
    numbers = [float(value) for value in operands]
    if not all(map(math.isfinite, numbers)) or math.isnan(nearest) or (operation == "div" and numbers[1] == 0):
        return nearest
    side = _side(operation, list(map(Fraction, numbers)), float(nearest))
    if side == 0:
        return _exact_zero(operation, mode, numbers, nearest) if nearest == 0 else nearest
    if mode == "rz":
        towards, wrong = (math.inf, side < 0) if np.signbit(nearest) else (-math.inf, side > 0)
    else:
        towards, wrong = (-math.inf, side > 0) if mode == "rm" else (math.inf, side < 0)
    return np.nextafter(nearest, towards) if wrong else nearest


def _side(operation: str, operands: list[Fraction], nearest: float) -> int:
    """1 where `nearest` is above the exact result, -1 where it is below, else 0."""
    if math.isinf(nearest):
        return 1 if nearest > 0 else -1
    found = Fraction(nearest)
    if operation == "sqrt":
        (exact,) = operands
        found *= found
    else:
        exact = _EXACT[operation](*operands)
    return (found > exact) - (found < exact)


def _exact_zero(operation: str, mode: str, numbers: Sequence[float], nearest: Any) -> Any:
    """Terms that cancel give -0 where results are rounded down."""
    if mode != "rm" or operation not in ("add", "sub", "fma"):
        return nearest
    *factors, last = numbers
    first_is_negative = math.prod(math.copysign(1.0, factor) for factor in factors) < 0
    last_is_negative = (math.copysign(1.0, last) < 0) != (operation == "sub")
    return nearest if not first_is_negative and not last_is_negative else -abs(nearest)
