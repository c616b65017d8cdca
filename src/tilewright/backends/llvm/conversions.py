"""Conversions between number formats, never by a library call.

Formats are named as in the IR (`f16`, `f8E4M3FN`); values have LLVM's types (half, bfloat, i8 for all 8-bit floats).
Narrowing rounds to nearest even, once, also from f64; NaN stays NaN. 8-bit floats saturate, as NVIDIA's `cvt.satfinite`
does: beyond the range, infinity included, comes the largest number. Integers from floats saturate, and NaN gives 0.

    bf16 from f32:   (bits + 0x7FFF + (bits >> 16 & 1)) >> 16         and a quiet NaN for NaN
    f32 from f8E5M2: the code is the upper half of the f16, which the processor widens

The processor's own bf16 instructions are not used: they flush denormals.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.spelling import FLOAT_SPELLING
from tilewright.backends.llvm.writer import LlvmWriter

DIGITS = {"float": 24, "double": 53}
"""Binary digits that a float has."""


@dataclass(frozen=True)
class SmallFloat:
    """A binary format below 32 bits. `infinite`: it has infinities. `unsigned_zero`: NaN takes the place of -0."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    infinite: bool = False
    unsigned_zero: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def exponent_mask(self) -> int:
        """Code of infinity, in formats that have one."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def nan(self) -> int:
        """Code of NaN, without sign."""
        if self.infinite:
            return self.exponent_mask | 1 << (self.mantissa_bits - 1)
        return self.sign if self.unsigned_zero else self.sign - 1

    @property
    def overflow(self) -> int:
        """The code of a number beyond the range, rounded to nearest."""
        return self.largest if self.bits == 8 else self.exponent_mask

    @property
    def infinity(self) -> int:
        """The code of infinity, rounded towards zero."""
        return self.exponent_mask if self.infinite else self.largest

    @property
    def largest(self) -> int:
        """Code of the largest finite number."""
        if self.infinite:
            return self.exponent_mask - 1
        return self.sign - 1 if self.unsigned_zero else self.sign - 2


SMALL_FLOATS = {
    "f16": SmallFloat(5, 10, 15, infinite=True),
    "f8E4M3B11FNUZ": SmallFloat(4, 3, 11, unsigned_zero=True),
    "f8E4M3FN": SmallFloat(4, 3, 7),
    "f8E4M3FNUZ": SmallFloat(4, 3, 8, unsigned_zero=True),
    "f8E5M2": SmallFloat(5, 2, 15, infinite=True),
    "f8E5M2FNUZ": SmallFloat(5, 2, 16, unsigned_zero=True),
}


def convert_float(w: LlvmWriter, value: str, source: str, target: str, lanes: int, *, to_zero: bool = False) -> str:
    """A float of format `source` in format `target`.

    Args:
        source, target: IR names of float formats.
        to_zero: narrowing rounds towards zero.
    """
    if source == target:
        return value
    if target == "f64":
        single = LaneType(w, "float", lanes)(to_single(w, value, source, lanes))
        return LaneType(w, "double", lanes).cast("fpext", single).name
    if source != "f64":
        return from_single(w, to_single(w, value, source, lanes), target, lanes, to_zero=to_zero)
    double = LaneType(w, "double", lanes)(value)
    if target in ("f32", "tf32") and not to_zero:
        return LaneType(w, "float", lanes).cast("fptrunc", double).name
    odd = _round_double(double, to_odd=target not in ("f32", "tf32"))
    return from_single(w, odd.name, target, lanes, to_zero=to_zero)


def to_single(w: LlvmWriter, value: str, source: str, lanes: int) -> str:
    """A value of any format except f64 as f32; exact."""
    single = LaneType(w, "float", lanes)
    if source in ("f32", "tf32"):
        return value
    if source == "bf16":
        return single.cast("fpext", LaneType(w, "bfloat", lanes)(value)).name
    if source == "f16":
        half = LaneType(w, "half", lanes)(value)
        return (
            single.cast("fpext", half) if w.target.has_f16c else _widened(half_bits(half), SMALL_FLOATS["f16"])
        ).name
    if source == "f8E5M2" and w.target.has_f16c:
        bits = LaneType(w, "i16", lanes).cast("zext", LaneType(w, "i8", lanes)(value)) << 8
        return single.cast("fpext", LaneType(w, "half", lanes).from_bits(bits)).name
    return _widened(LaneType(w, "i8", lanes)(value), SMALL_FLOATS[source]).name


def from_single(w: LlvmWriter, value: str, target: str, lanes: int, *, to_zero: bool = False) -> str:
    """An f32 rounded to any format except f64.

    Args:
        w: writes the text.
        value: a float, or a vector of them.
        target: the name of the format.
        lanes: the number of lanes.
        to_zero: round towards zero, not to the nearest.
    """
    if target in ("f32", "tf32"):
        return value
    x = LaneType(w, "float", lanes)(value)
    if target == "bf16":
        return LaneType(w, "bfloat", lanes).from_bits(_brain_bits(x, to_zero=to_zero)).name
    half = LaneType(w, "half", lanes)
    if target == "f16" and w.target.has_f16c and not to_zero:
        return half.cast("fptrunc", x).name
    code = _narrowed(x, SMALL_FLOATS[target], to_zero=to_zero)
    narrow = code.kind.with_element("i16" if target == "f16" else "i8").cast("trunc", code)
    return half.from_bits(narrow).name if target == "f16" else narrow.name


def half_bits(x: Lanes) -> Lanes:
    """The bits of 16-bit floats.

    A scalar goes through memory: LLVM 22 aborts on `bitcast half %x to i16` where only the sign is used after.
    """
    k = x.kind
    if k.lanes > 1:
        return x.bits
    w, place = k.writer, k.writer.alloca(2, align=2)
    w.do(f"store volatile {k.type} {x.name}, ptr {place}, align 2")
    return k.integers(w.emit(f"load volatile i16, ptr {place}, align 2"))


def integer_from_float(w: LlvmWriter, value: str, source: str, integer: str, lanes: int, *, signed: bool) -> str:
    """The integer of a float, rounded towards zero, saturated; 0 for NaN.

    Args:
        w: writes the text.
        value: a float, or a vector of them.
        source: the name of its format.
        integer: LLVM's type of an integer.
        lanes: the number of lanes.
        signed: the integer has a sign.
    """
    if source != "f64":
        value, source = to_single(w, value, source, lanes), "f32"
    from_kind = LaneType(w, FLOAT_SPELLING[source], lanes)
    to_kind = LaneType(w, "i8" if integer == "i1" else integer, lanes)
    if lanes > 1 and not w.target.neon:
        found = _integers_within(from_kind(value), to_kind, signed=signed)
        return LaneType(w, integer, lanes).cast("trunc", found).name
    name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{_overload(to_kind)}.{_overload(from_kind)}"
    result = to_kind(w.call(to_kind.type, name, [(from_kind.type, value)]))
    return LaneType(w, integer, lanes).cast("trunc", result).name


def _integers_within(x: Lanes, integers: LaneType, *, signed: bool) -> Lanes:
    """The integers of a vector on x86, where LLVM takes it apart to saturate: between the bounds nothing does."""
    k, bits, digits = x.kind, integers.width - signed, DIGITS[x.kind.element]
    low, high = -(1 << bits) if signed else 0, (1 << bits) - 1
    last = high if bits <= digits else (1 << bits) - (1 << (bits - digits))
    inside = k.minimum(k.maximum(x, float(low)), float(last))  # NaN becomes `low`
    if integers.width < 32:
        found = integers.cast("trunc", integers.with_element("i32").cast("fptosi", inside))
    else:
        found = integers.cast("fptosi" if signed else "fptoui", inside)
    if last < high:
        found = integers.select(x > float(last), high, found)
    return integers.select(x.is_nan(), 0, found) if signed else found


def float_from_integer(w: LlvmWriter, value: str, integer: str, target: str, lanes: int, *, signed: bool) -> str:
    """The float of an integer, rounded once, to nearest even.

    Args:
        w: writes the text.
        value: an integer, or a vector of them.
        integer: LLVM's type of one.
        target: the name of the float's format.
        lanes: the number of lanes.
        signed: the integer has a sign.
    """
    opcode = "sitofp" if signed else "uitofp"
    number = LaneType(w, integer, lanes)(value)
    # Every integer that f16 and fp8 can hold is exact in f32; bf16 has f32's range, so it needs a wider detour.
    exact_in_single = number.kind.width <= 16 or target not in ("bf16", "f64")
    between = "f64" if target == "f64" or not exact_in_single else "f32"
    if number.kind.width == 64 and between == "f64" and target != "f64":
        number = _rounded_to_odd(number, signed=signed)
    through = LaneType(w, FLOAT_SPELLING[between], lanes).cast(opcode, number)
    return convert_float(w, through.name, between, target, lanes)


def _rounded_to_odd(x: Lanes, *, signed: bool) -> Lanes:
    """64-bit integers with at most 53 bits from the highest on, the last of which says that something was cut off."""
    k = x.kind
    odd = (x & -0x800) | k.select((x & 0x7FF).differs(0), 0x800, 0)
    fits = k.compare("ule", x + (1 << 53), 1 << 54) if signed else k.compare("ule", x, 1 << 53)
    return k.select(fits, x, odd)


def _overload(kind: LaneType) -> str:
    element = {"float": "f32", "double": "f64"}.get(kind.element, kind.element)
    return element if kind.lanes == 1 else f"v{kind.lanes}{element}"


def _round_double(x: Lanes, *, to_odd: bool) -> Lanes:
    """f64 to f32, rounded to zero or to odd: an inexact result whose last bit is 1 may be rounded a second time."""
    single = x.kind.with_element("float")
    rounded = single.cast("fptrunc", x)
    back = x.kind.cast("fpext", rounded)
    too_large = single.integers.cast("sext", abs(back) > abs(x))
    bits = rounded.bits + too_large
    if to_odd:
        inexact = x.kind.compare("one", back, x)
        bits = bits | single.integers.cast("zext", inexact)
    return single.from_bits(bits)


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded sum, and what is missing from the exact one (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def odd_sum(a: Lanes, b: Lanes) -> Lanes:
    """The sum of doubles rounded to odd: of its two neighbours the one whose last bit is 1, if it is not exact."""
    k = a.kind
    total, lost = two_sum(a, b)
    bits = total.bits
    even = (bits & 1).equals(0)
    outwards = k.compare("ogt", lost, 0.0).equals(k.compare("ogt", total, 0.0))
    step = bits.kind.select(outwards, 1, -1)
    return k.from_bits(bits + bits.kind.select(k.compare("one", lost, 0.0) & even, step, 0))


def _brain_bits(x: Lanes, *, to_zero: bool) -> Lanes:
    bits = x.bits
    half = bits.kind.with_element("i16")
    rounded = bits if to_zero else bits + ((bits >> 16) & 1) + 0x7FFF
    quiet = bits | 0x00400000
    return half.cast("trunc", bits.kind.select(x.is_nan(), quiet, rounded) >> 16)


def _widened(code: Lanes, form: SmallFloat) -> Lanes:
    """Any small format to f32: the fields put where f32 has them, times two to the difference of the biases."""
    single = code.kind.with_element("float")
    wide = single.integers.cast("zext", code)
    magnitude = (wide & (form.sign - 1)) << (23 - form.mantissa_bits)
    value = (single.from_bits(magnitude) * 2.0 ** (127 - form.bias)).bits
    if form.infinite:
        special = magnitude.kind.compare("uge", magnitude, form.exponent_mask << (23 - form.mantissa_bits))
        value = value.kind.select(special, magnitude | 0x7F800000, value)
    else:
        is_nan = wide.equals(form.nan) if form.unsigned_zero else (wide & form.nan).equals(form.nan)
        value = value.kind.select(is_nan, 0x7FC00000, value)
    return single.from_bits(value | ((wide & form.sign) << (32 - form.bits)))


def _narrowed(x: Lanes, form: SmallFloat, *, to_zero: bool) -> Lanes:
    """f32 to the code of any small format, as i32."""
    shift = 23 - form.mantissa_bits
    magnitude = x.bits & 0x7FFFFFFF
    ints = magnitude.kind
    rounded = magnitude if to_zero else magnitude + ((magnitude >> shift) & 1) + ((1 << (shift - 1)) - 1)
    normal = (rounded >> shift) - ((127 - form.bias) << form.mantissa_bits)
    code = ints.select(magnitude < (128 - form.bias) << 23, _denormal_code(x, form, to_zero=to_zero), normal)
    overflow = form.largest if to_zero else form.overflow
    code = ints.select(code > form.largest, overflow, code)
    if to_zero:
        code = ints.select(magnitude.equals(0x7F800000), form.infinity, code)
    code = ints.select(x.is_nan(), form.nan, code)
    sign = (x.bits >> (32 - form.bits)) & form.sign
    if form.unsigned_zero:
        sign = ints.select(code.equals(0), 0, sign)
    return code | sign


def _denormal_code(x: Lanes, form: SmallFloat, *, to_zero: bool) -> Lanes:
    """The code of a denormal number: below the smallest normal one, codes count multiples of the smallest denormal."""
    step = 2.0 ** (1 - form.bias - form.mantissa_bits)
    if to_zero:
        return x.kind.integers.cast("fptosi", x.kind.minimum(abs(x) / step, 65536.0))
    anchor = x.kind(step * 2.0**23)  # where f32's own step is this one: the addition rounds
    return (abs(x) + anchor).bits - anchor.bits
