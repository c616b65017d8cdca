"""Conversions of libdevice that round as their names say: _rn to nearest, _rz towards zero, _rd down, _ru up.

float2int_rd(x)      floor, then saturated; NaN gives 0
ll2float_rz(x)       the nearest float, and one step back where that went too far
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language.extra.bits import bitcast, less, plus, unsigned, width
from tilewright.language.extra.forms import takes
from tilewright.language.math import ceil, floor
from tilewright.language.operations import cast, where
from tilewright.semantics.math import extern
from tilewright.semantics.types import dtype, float32, float64, int32, int64, uint32, uint64

INTEGERS = {"int": int32, "uint": uint32, "ll": int64, "ull": uint64}
FLOATS = {"float": float32, "double": float64}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "rn": lambda x: extern("__tw_rint", (x,)),
    "rz": lambda x: x,
    "rd": floor,
    "ru": ceil,
}
WORDS = {"rn": "to nearest", "rz": "towards zero", "rd": "down", "ru": "up"}


def to_integer(source: str, target: str, mode: str) -> Any:
    """`float2int_rd` and its like; unsigned results are returned as signed bits, as Triton declares them."""
    kind = INTEGERS[target]
    result = int32 if kind.primitive_bitwidth == 32 else int64

    def convert(arg0: Any) -> Any:
        return bitcast(cast(WHOLE[mode](arg0), kind), result)

    text = f"The number rounded {WORDS[mode]}, in the range of {kind}; 0 for NaN."
    return _named(f"{source}2{target}_{mode}", f"{FLOATS[source]} -> {result}", convert, text)


def from_integer(source: str, target: str, mode: str) -> Any:
    """`ll2float_rd` and its like."""
    kind, form = INTEGERS[source], FLOATS[target]

    def convert(arg0: Any) -> Any:
        nearest = cast(arg0, form)
        back = cast(nearest, kind)
        # The largest integer is no float: the next power of two above it comes back as that integer.
        beyond = nearest >= 2.0 ** (kind.primitive_bitwidth - kind.signed)
        return stepped(nearest, mode, above=(back > arg0) | beyond, below=back < arg0)

    return _named(f"{source}2{target}_{mode}", f"{kind} -> {form}", convert, f"The number rounded {WORDS[mode]}.")


def double_to_float(mode: str) -> Any:
    """`double2float_rd` and its like."""

    def convert(arg0: Any) -> Any:
        nearest = cast(arg0, float32)
        back = cast(nearest, float64)
        return stepped(nearest, mode, above=back > arg0, below=back < arg0)

    return _named(f"double2float_{mode}", "fp64 -> fp32", convert, f"The number rounded {WORDS[mode]}.")


def stepped(nearest: Any, mode: str, *, above: Any, below: Any) -> Any:
    """`nearest`, which is `above` or `below` the exact number or neither, moved where `mode` wants the other side."""
    if mode == "rn":
        return nearest
    bits = unsigned(nearest)
    negative = (bits >> (width(nearest) - 1)) != 0
    smaller = {"rz": (~negative & above) | (negative & below), "rd": ~negative & above, "ru": negative & below}[mode]
    larger = {"rz": None, "rd": negative & above, "ru": ~negative & below}[mode]
    bits = where(smaller, less(bits, 1), bits)
    if larger is not None:
        bits = where(larger, plus(bits, 1), bits)
    return bitcast(bits, nearest.type.scalar)


def _named(name: str, form: str, function: Any, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return takes(form)(function)


float2int_rn, float2int_rz, float2int_rd, float2int_ru = (to_integer("float", "int", m) for m in WORDS)
float2uint_rn, float2uint_rz, float2uint_rd, float2uint_ru = (to_integer("float", "uint", m) for m in WORDS)
float2ll_rn, float2ll_rz, float2ll_rd, float2ll_ru = (to_integer("float", "ll", m) for m in WORDS)
float2ull_rn, float2ull_rz, float2ull_rd, float2ull_ru = (to_integer("float", "ull", m) for m in WORDS)
double2int_rn, double2int_rz, double2int_rd, double2int_ru = (to_integer("double", "int", m) for m in WORDS)
double2uint_rn, double2uint_rz, double2uint_rd, double2uint_ru = (to_integer("double", "uint", m) for m in WORDS)
double2ll_rn, double2ll_rz, double2ll_rd, double2ll_ru = (to_integer("double", "ll", m) for m in WORDS)
double2ull_rn, double2ull_rz, double2ull_rd, double2ull_ru = (to_integer("double", "ull", m) for m in WORDS)
int2float_rn, int2float_rz, int2float_rd, int2float_ru = (from_integer("int", "float", m) for m in WORDS)
uint2float_rn, uint2float_rz, uint2float_rd, uint2float_ru = (from_integer("uint", "float", m) for m in WORDS)
ll2float_rn, ll2float_rz, ll2float_rd, ll2float_ru = (from_integer("ll", "float", m) for m in WORDS)
ull2float_rn, ull2float_rz, ull2float_rd, ull2float_ru = (from_integer("ull", "float", m) for m in WORDS)
ll2double_rn, ll2double_rz, ll2double_rd, ll2double_ru = (from_integer("ll", "double", m) for m in WORDS)
ull2double_rn, ull2double_rz, ull2double_rd, ull2double_ru = (from_integer("ull", "double", m) for m in WORDS)
int2double_rn, uint2double_rn = from_integer("int", "double", "rn"), from_integer("uint", "double", "rn")
double2float_rn, double2float_rz, double2float_rd, double2float_ru = map(double_to_float, WORDS)


def _bits_as(name: str, form: str, target: dtype) -> Any:
    def convert(arg0: Any) -> Any:
        return bitcast(arg0, target)

    return _named(name, form, convert, f"The bits as {target}.")


float_as_int, float_as_uint = (_bits_as(f"float_as_{name}", "fp32 -> int32", int32) for name in ("int", "uint"))
int_as_float, uint_as_float = (_bits_as(f"{name}_as_float", f"{name}32 -> fp32", float32) for name in ("int", "uint"))
double_as_longlong = _bits_as("double_as_longlong", "fp64 -> int64", int64)
longlong_as_double = _bits_as("longlong_as_double", "int64 -> fp64", float64)


@takes("fp64 -> int32")
def double2hiint(arg0: Any) -> Any:
    """The upper half of the bits."""
    return cast(bitcast(arg0, int64) >> 32, int32)


@takes("fp64 -> int32")
def double2loint(arg0: Any) -> Any:
    """The lower half of the bits."""
    return cast(bitcast(arg0, int64), int32)


@takes("int32, int32 -> fp64")
def hiloint2double(arg0: Any, arg1: Any) -> Any:
    """The number whose bits are the two halves."""
    high = cast(unsigned(arg0), uint64) << 32
    return bitcast(high | cast(unsigned(arg1), uint64), float64)
