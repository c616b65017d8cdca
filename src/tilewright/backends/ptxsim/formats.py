"""Float formats to the bit: numbers of float64 into any format with any rounding, and back.

narrow(np.array([1.0, 448.0, 500.0]), FORMATS["e4m3"], "rn", saturate=True)      # 0x38, 0x7E, 0x7E
widen(np.array([0x38], np.uint8), FORMATS["e4m3"])                               # 1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tilewright.backends.ptxsim.value_types import Array

U64 = np.uint64


@dataclass(frozen=True)
class Format:
    """A float format.

    Attributes:
        exponent, mantissa: their bits.
        bias: of the exponent.
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


def narrow(values: Array, target: Format, mode: str = "rn", *, saturate: bool = False) -> Array:
    """Numbers of float64 as bits of a format, rounded once.

    Args:
        values: float64; for results that are not exact there, rounded to odd (`exact.py`).
        target: the format.
        mode: rn (to nearest, ties to even), rna (ties away from zero), rz, rm (down) or rp (up).
        saturate: what is too large, infinities included, becomes the largest finite number.
    """
    bits = np.ascontiguousarray(values, np.float64).view(U64)
    negative = bits >> U64(63) != 0
    exponent = ((bits >> U64(52)) & U64(0x7FF)).astype(np.int64)
    fraction = bits & U64((1 << 52) - 1)
    significand = np.where(exponent > 0, fraction | U64(1 << 52), fraction)
    power = np.maximum(exponent, 1) - 1023
    least = 1 - target.bias
    drop = np.minimum(52 - target.mantissa + np.maximum(0, least - power), 63).astype(U64)
    kept, rest = significand >> drop, significand & ((U64(1) << drop) - U64(1))
    kept = kept + _rounds_up(mode, kept, rest, drop, negative)
    # A mantissa that overflows carries into the exponent by itself.
    magnitude = np.where(power >= least, ((power - least).astype(U64) << U64(target.mantissa)) + kept, kept)
    magnitude = _limited(magnitude, exponent == 0x7FF, target, mode, negative=negative, saturate=saturate)
    result = magnitude | (negative.astype(U64) << U64(target.bits - 1))
    if target.nan is not None:
        result = np.where((exponent == 0x7FF) & (fraction != 0), U64(target.nan), result)
    elif (fraction[exponent == 0x7FF] != 0).any():
        result = np.where((exponent == 0x7FF) & (fraction != 0), U64(target.largest), result)
    return (result << U64(target.zeros)).astype(target.storage)


def _rounds_up(mode: str, kept: Array, rest: Array, drop: Array, negative: Array) -> Array:
    half = U64(1) << (drop - U64(1)) if (drop > 0).all() else np.where(drop > 0, U64(1) << (drop - U64(1)), U64(1))
    if mode == "rn":
        up = (rest > half) | ((rest == half) & (kept & U64(1) != 0))
    elif mode == "rna":
        up = rest >= half
    elif mode == "rz":
        up = np.zeros(len(rest), bool) if rest.ndim == 1 else np.zeros(rest.shape, bool)
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


@cache
def _table(name: str) -> Array:
    """Every number of a format of at most eight bits, as float32."""
    form = FORMATS[name]
    numbers = np.arange(256, dtype=np.int64)
    low = numbers & ((1 << form.bits) - 1)
    mantissa, exponent = low & ((1 << form.mantissa) - 1), (low >> form.mantissa) & ((1 << form.exponent) - 1)
    fraction = np.where(exponent > 0, mantissa + (1 << form.mantissa), mantissa).astype(np.float64)
    values = np.ldexp(fraction, np.maximum(exponent, 1) - form.bias - form.mantissa)
    magnitude = low & ((1 << (form.bits - 1)) - 1)
    if form.infinite is not None:
        values = np.where(magnitude == form.infinite, np.inf, values)
        values = np.where(magnitude > form.infinite, np.nan, values)
    elif form.nan is not None:
        values = np.where(magnitude == form.nan, np.nan, values)
    return np.where(low >> (form.bits - 1), -values, values).astype(np.float32)


def widen(bits: Array, name: str) -> Array:
    """Bits of a format as float32 (float64 stays): always exact."""
    if name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if name == "f16":
        return np.ascontiguousarray(bits).view(np.float16).astype(np.float32)
    if name in ("f32", "tf32"):
        return np.ascontiguousarray(bits).view(np.float32)
    if name == "f64":
        return np.ascontiguousarray(bits).view(np.float64)
    return _table(name)[bits]


def narrow_nearest(values: Array, name: str) -> Array:
    """float32 (or float64 for f64) as bits of a format, rounded to nearest; NaNs become the format's one."""
    if name == "bf16":
        return _nearest_bf16(np.ascontiguousarray(values, np.float32))
    if name == "f16":
        found = values.astype(np.float16)
    elif name == "f32":
        found = np.ascontiguousarray(values, np.float32)
    else:
        return narrow(values.astype(np.float64), FORMATS[name])
    return canonical(found, name).view(f"u{found.dtype.itemsize}")


def canonical(values: Array, name: str) -> Array:
    """The numbers, with every NaN the one that operations make."""
    nans = values != values
    if not nans.any():
        return values
    bits = values.view(f"u{values.dtype.itemsize}")
    return np.where(nans, bits.dtype.type(FORMATS[name].nan or 0), bits).view(values.dtype)


def _nearest_bf16(values: Array) -> Array:
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(values != values, np.uint32(0x7FFF), rounded).astype(np.uint16)
