"""Numbers of IR types: their canonical Python value and their MLIR text; strings in quotes.

canonical(255, i8) == -1      canonical(0.1, f32) == 0.10000000149011612
number_text(16777216.0, f32) == "0x4B800000"      read_number("0x7F800000", f32) == inf

In a string printable ASCII is unchanged; `\\` and two hexadecimal digits stand for every other byte.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tilewright.ir.types import FloatType, IndexType, IntType, Type, bf16, f16, f32, f64, i1
from tilewright.support.locks import importing

_PACK = {f16: ("<e", "<H"), f32: ("<f", "<I"), f64: ("<d", "<Q")}
_DIGITS = {"f64": 17, "f32": 9, "tf32": 9, "f16": 5, "bf16": 4, "f8E5M2": 2, "f8E5M2FNUZ": 2}
"""Decimal digits that distinguish two neighbours (LLVM's estimate: 2 + precision * 59 / 196)."""


def canonical(value: int | float, type: Type) -> int | float:
    """`value` as the element type of `type` holds it: integers wrapped to signed (i1: 0 or 1), floats rounded.

    Raises:
        TypeError: when the type holds no numbers.
    """
    scalar = type.scalar
    if isinstance(scalar, (IntType, IndexType)):
        if scalar is i1:
            return int(value) & 1
        bits = scalar.bits
        return ((int(value) + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)
    if isinstance(scalar, FloatType):
        return round_float(float(value), scalar)
    raise TypeError(f"there are no constants of type {type.text}")


def round_float(value: float, type: FloatType) -> float:
    """The nearest value of the format (ties to even); too large becomes infinite, or NaN where there is no infinity."""
    if type is f64 or value != value:
        return value
    if type is f32:
        try:
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return math.copysign(math.inf, value)
    nearest_float = _nearest_float()
    with np.errstate(all="ignore"):
        return float(nearest_float(np.array(value, np.float64), numpy_types()[type.text]))


def float_bits(value: float, type: FloatType) -> int:
    """The bit pattern of a value of the format."""
    if type in _PACK:
        pack, unpack = _PACK[type]
        return int(struct.unpack(unpack, struct.pack(pack, value))[0])
    if type is bf16:
        return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16
    return int.from_bytes(np.array(value, numpy_types()[type.text]).tobytes(), "little")


def float_from_bits(bits: int, type: FloatType) -> float:
    """The value of a bit pattern."""
    if type in _PACK:
        unpack, pack = _PACK[type]
        return float(struct.unpack(unpack, struct.pack(pack, bits))[0])
    if type is bf16:
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    kind = numpy_types()[type.text]
    return float(np.frombuffer(bits.to_bytes(kind.itemsize, "little"), kind)[0])


@cache
def _nearest_float() -> Callable[..., Any]:
    with importing:
        from tilewright.support.exact_rounding import nearest_float

    return nearest_float


@cache
def numpy_types() -> dict[str, np.dtype[np.generic]]:
    """NumPy's types of floats by the names of ours."""
    with importing:
        import ml_dtypes

    return {
        "f16": np.dtype(np.float16),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f32": np.dtype(np.float32),
        "tf32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
        "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
        "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
        "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
        "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
        "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    }


def read_number(text: str, type: Type) -> int | float:
    """The value of a literal of `type`'s element type.

    Raises:
        ValueError: when the text is no such literal.
    """
    scalar = type.scalar
    if isinstance(scalar, FloatType):
        if text[:2] == "0x":
            bits = int(text, 16)
            if bits >> scalar.bits:
                raise ValueError(f"{text} has more than {scalar.bits} bits")
            return float_from_bits(bits, scalar)
        return round_float(float(text), scalar)
    if text == "true" or text == "false":
        return int(text == "true")
    return canonical(int(text, 0), scalar)


def number_text(value: int | float, type: Type) -> str:
    """The literal MLIR prints for a value of `type`'s element type."""
    scalar = type.scalar
    if isinstance(scalar, FloatType):
        return float_text(value, scalar)
    if scalar is i1:
        return "true" if value else "false"
    return str(value)


def float_text(value: float, type: FloatType) -> str:
    """Six digits (and a zero) if they are exact; else as many as needed; else, as for infinities and NaN, the bits."""
    if math.isfinite(value):
        short = _six_digits(value)
        if round_float(float(short), type) == value:
            return short
        plain = _plain_text(value, _DIGITS.get(type.text, 3))
        if "." in plain:
            return plain
    return f"0x{float_bits(value, type):0{type.bits // 4}X}"


def _six_digits(value: float) -> str:
    """`1.500000e+00`."""
    digits, power = _leading_digits(value, 6)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:]:0<6}e{'-' if power < 0 else '+'}{abs(power):02}"


def _leading_digits(value: float, count: int) -> tuple[str, int]:
    """At most `count` digits without zeros at the end, and the power of ten of the first one.

    As LLVM finds them: digits beyond what `count` digits have in bits are cut off, only then it is rounded.
    """
    numerator, denominator = abs(value).as_integer_ratio()
    twos = denominator.bit_length() - 1
    exact = numerator * 5**twos
    excess = max((exact.bit_length() - (count * 196 + 58) // 59) * 59 // 196, 0)
    kept = exact // 10**excess
    text = str(kept)
    power = excess - twos + len(text) - 1
    if len(text) > count:
        rounded = str(int(text[:count]) + (text[count] >= "5"))
        power += len(rounded) - count
        text = rounded
    return text.rstrip("0") or "0", power


def _plain_text(value: float, digits: int) -> str:
    """LLVM's shortest form: positional with at most three padding zeros, otherwise scientific with `E`."""
    significant, lead = _leading_digits(value, digits)
    last = lead - len(significant) + 1
    sign = "-" if value < 0 else ""
    scientific = (last > 3 or lead + 1 > digits) if last >= 0 else lead < -3
    if scientific:
        return f"{sign}{significant[0]}.{significant[1:] or '0'}E{'-' if lead < 0 else '+'}{abs(lead)}"
    if last >= 0:
        return sign + significant + "0" * last
    if lead >= 0:
        return f"{sign}{significant[: lead + 1]}.{significant[lead + 1 :]}"
    return f"{sign}0.{'0' * (-lead - 1)}{significant}"


_ESCAPE = re.compile(rb"\\([nt\"\\]|[0-9A-Fa-f]{2})")
_SPECIAL = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def quoted(text: str) -> str:
    """`text` in quotes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escaped(byte) for byte in text.encode(errors="surrogateescape")) + '"'


def unquoted(body: str) -> str:
    """The text between the quotes with its escapes resolved."""
    if "\\" not in body:
        return body
    return _ESCAPE.sub(_resolve, body.encode()).decode(errors="surrogateescape")


def _escaped(byte: int) -> str:
    if byte == 0x5C:
        return "\\\\"
    return chr(byte) if 0x20 <= byte < 0x7F and byte != 0x22 else f"\\{byte:02X}"


def _resolve(match: re.Match[bytes]) -> bytes:
    return _SPECIAL.get(match[1]) or bytes([int(match[1], 16)])
