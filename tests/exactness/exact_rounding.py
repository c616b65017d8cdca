"""Rounding of exact fractions to number formats with whole numbers alone: the reference of the tables of this folder.

    encode(Fraction(1, 3), FORMATS["fp16"], "rn")       0x3555
    decode(0x3555, FORMATS["fp16"])                     Fraction(1365, 4096)

Numbers are fractions, or the floats ±inf, nan and -0.0. Shares no code with the package or ml_dtypes, and takes NumPy
for whole numbers only: `converted` does the same for arrays of codes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

Number = Fraction | float


@dataclass(frozen=True)
class Format:
    """A binary format: its fields, and what its largest exponent means.

    Attributes:
        infinite: the largest exponent is infinity and NaN.
        fnuz: the code of -0 is the one NaN; otherwise, without infinity, all bits set is NaN.
        saturates: what is too large becomes the largest number.
    """

    exponent: int
    fraction: int
    bias: int
    infinite: bool = True
    fnuz: bool = False
    saturates: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def nan(self) -> int:
        if self.infinite:
            return ((1 << self.exponent) - 1) << self.fraction | 1 << (self.fraction - 1)
        return self.sign if self.fnuz else self.sign - 1

    @property
    def largest(self) -> int:
        """The code of the largest number."""
        if self.infinite:
            return (((1 << self.exponent) - 1) << self.fraction) - 1
        return self.sign - 1 if self.fnuz else self.sign - 2


FORMATS = {
    "fp8e4nv": Format(4, 3, 7, infinite=False, saturates=True),
    "fp8e5": Format(5, 2, 15, saturates=True),
    "fp8e4b8": Format(4, 3, 8, infinite=False, fnuz=True, saturates=True),
    "fp8e5b16": Format(5, 2, 16, infinite=False, fnuz=True, saturates=True),
    "fp16": Format(5, 10, 15),
    "bf16": Format(8, 7, 127),
    "fp32": Format(8, 23, 127),
    "fp64": Format(11, 52, 1023),
}


def is_zero(number: Number) -> bool:
    return number == 0


def negative(number: Number) -> bool:
    """Is the sign set? NaN counts as positive."""
    return math.copysign(1.0, number) < 0 if isinstance(number, float) else number < 0


@cache
def decode(code: int, form: Format) -> Number:
    """The number that a code stands for."""
    minus, size = bool(code & form.sign), code & (form.sign - 1)
    exponent, fraction = size >> form.fraction, size & ((1 << form.fraction) - 1)
    if form.infinite and exponent == (1 << form.exponent) - 1:
        return math.nan if fraction else -math.inf if minus else math.inf
    if code == form.nan or (not form.fnuz and not form.infinite and size == form.nan):
        return math.nan
    if size == 0:
        return -0.0 if minus else Fraction(0)
    whole = fraction if exponent == 0 else fraction + (1 << form.fraction)
    value = Fraction(whole) * Fraction(2) ** (max(exponent, 1) - form.bias - form.fraction)
    return -value if minus else value


def encode(number: Number, form: Format, mode: str = "rn") -> int:
    """The code of a number rounded by `mode`: rn to nearest even, rz towards zero, rd down, ru up."""
    if number != number:
        return form.nan
    minus = negative(number)
    sign = form.sign if minus else 0
    if isinstance(number, float) and math.isinf(number):
        overflow = form.largest if not form.infinite or (form.saturates and mode == "rn") else form.largest + 1
        return overflow | sign
    code = _rounded(abs(Fraction(number)), form, mode, minus=minus)
    return code if code == 0 and form.fnuz else code | sign


def _rounded(size: Fraction, form: Format, mode: str, *, minus: bool) -> int:
    if size == 0:
        return 0
    top, bottom = size.numerator, size.denominator
    power = top.bit_length() - bottom.bit_length()
    power -= _shifted(top, -power) < _shifted(bottom, power)
    power = max(power, 1 - form.bias)
    top, bottom = _shifted(top, form.fraction - power), _shifted(bottom, power - form.fraction)
    whole, rest = divmod(top, bottom)
    if mode == "rn":
        up = 2 * rest > bottom or (2 * rest == bottom and whole & 1 == 1)
    else:
        up = rest > 0 and mode == ("rd" if minus else "ru")
    code = whole + up + ((power + form.bias - 1) << form.fraction)
    if code <= form.largest:
        return code
    stays = mode == "rz" or mode == ("ru" if minus else "rd") or form.saturates
    return form.largest if stays else form.largest + 1


def _shifted(number: int, distance: int) -> int:
    """Times 2 to the power of `distance`, if that is positive: the other part of a fraction takes what is negative."""
    return number << distance if distance > 0 else number


def converted(codes: np.ndarray, source: Format, target: Format, mode: str) -> np.ndarray:
    """`encode(decode(code, source), target, mode)` of each code; `mode` is rn or rz."""
    minus = codes & np.uint64(source.sign) != 0
    size = codes & np.uint64(source.sign - 1)
    is_nan = codes == source.nan if source.fnuz else size > source.largest + (1 if source.infinite else 0)
    is_infinite = np.full(codes.shape, source.infinite) & (size == source.largest + 1)
    exponent = (size >> np.uint64(source.fraction)).astype(np.int64)
    whole = (size & np.uint64((1 << source.fraction) - 1)).astype(np.int64) + (
        (exponent > 0).astype(np.int64) << source.fraction
    )
    found = _rounded_all(whole, np.maximum(exponent, 1) - source.bias - source.fraction, target, mode)
    overflow = target.largest if not target.infinite or (target.saturates and mode == "rn") else target.largest + 1
    found[is_infinite] = overflow
    signed = found | np.where(minus & ~((found == 0) & target.fnuz), np.uint64(target.sign), np.uint64(0))
    return np.where(is_nan, np.uint64(target.nan), signed)


def from_integers(values: np.ndarray, target: Format, mode: str) -> np.ndarray:
    """`encode(value, target, mode)` of numbers whose size is less than 2^53."""
    found = _rounded_all(np.abs(values), np.zeros_like(values), target, mode)
    return found | np.where((values < 0) & ~((found == 0) & target.fnuz), np.uint64(target.sign), np.uint64(0))


def _rounded_all(whole: np.ndarray, exponent: np.ndarray, form: Format, mode: str) -> np.ndarray:
    """Codes of `whole` · 2^`exponent`, which are not negative; `whole` is less than 2^53."""
    length = sum((whole >> place > 0).astype(np.int64) for place in range(53))
    power = np.maximum(length - 1 + exponent, 1 - form.bias)
    shift = power - form.fraction - exponent
    right = np.clip(shift, 0, 62)
    kept = (whole >> right) << np.clip(-shift, 0, 62)
    rest = whole - ((whole >> right) << right)
    half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
    up = (
        (right > 0) & ((rest > half) | ((rest == half) & (kept & 1 == 1)))
        if mode == "rn"
        else np.zeros(kept.shape, bool)
    )
    code = np.where(whole == 0, 0, kept + up + ((power + form.bias - 1) << form.fraction))
    stays = mode == "rz" or form.saturates
    return np.minimum(code, form.largest if stays else form.largest + 1).astype(np.uint64)
