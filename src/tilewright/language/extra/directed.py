"""Functions of libdevice with the rounding of their names: _rn to nearest, _rz towards zero, _rd down, _ru up.

float2int_rd(x)      floor, then saturated; NaN gives 0
ll2float_rz(x)       the nearest float, and one step back where that went too far
add_rd(x, y)         tt.extern_elementwise {symbol = "__tw_add_rd"}

Arithmetic rounds once, subnormal results and signs of zeros included, and is never contracted into a fused operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language.extra.bits import bitcast, less, plus, unsigned, width
from tilewright.language.extra.forms import FLOATS_1, FLOATS_2, FLOATS_3, library_function, named, takes
from tilewright.language.math import ceil, floor, rsqrt
from tilewright.language.operations import cast, where
from tilewright.semantics.math import extern
from tilewright.semantics.types import float32, float64, int32, int64, uint32, uint64

# --- conversions ------------------------------------------------------------------------------------------------

INTEGERS = {"int": int32, "uint": uint32, "ll": int64, "ull": uint64}
FLOATS = {"float": float32, "double": float64}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "rn": lambda x: extern("__tw_rint", (x,)),
    "rz": lambda x: x,
    "rd": floor,
    "ru": ceil,
}
MODES = {"rn": "to nearest", "rz": "towards zero", "rd": "down", "ru": "up"}


def to_integer(source: str, target: str, mode: str) -> Any:
    """`float2int_rd` and its like; unsigned results are returned as signed bits, as Triton declares them."""
    kind = INTEGERS[target]
    result = int32 if kind.primitive_bitwidth == 32 else int64

    def convert(arg0: Any) -> Any:
        return bitcast(cast(WHOLE[mode](arg0), kind), result)

    text = f"The number rounded {MODES[mode]}, in the range of {kind}; 0 for NaN."
    return named(f"{source}2{target}_{mode}", convert, [f"{FLOATS[source]} -> {result}"], text)


def from_integer(source: str, target: str, mode: str) -> Any:
    """`ll2float_rd` and its like."""
    kind, form = INTEGERS[source], FLOATS[target]

    def convert(arg0: Any) -> Any:
        nearest = cast(arg0, form)
        back = cast(nearest, kind)
        # The largest integer is no float: the next power of two above it comes back as that integer.
        beyond = nearest >= 2.0 ** (kind.primitive_bitwidth - kind.signed)
        return stepped(nearest, mode, above=(back > arg0) | beyond, below=back < arg0)

    return named(f"{source}2{target}_{mode}", convert, [f"{kind} -> {form}"], f"The number rounded {MODES[mode]}.")


def double_to_float(mode: str) -> Any:
    """`double2float_rd` and its like."""

    def convert(arg0: Any) -> Any:
        nearest = cast(arg0, float32)
        back = cast(nearest, float64)
        return stepped(nearest, mode, above=back > arg0, below=back < arg0)

    return named(f"double2float_{mode}", convert, ["fp64 -> fp32"], f"The number rounded {MODES[mode]}.")


def stepped(nearest: Any, mode: str, *, above: Any, below: Any) -> Any:
    """`nearest`, which is `above` or `below` the exact number or neither, moved to the side that `mode` requires."""
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


float2int_rn, float2int_rz, float2int_rd, float2int_ru = (to_integer("float", "int", m) for m in MODES)
float2uint_rn, float2uint_rz, float2uint_rd, float2uint_ru = (to_integer("float", "uint", m) for m in MODES)
float2ll_rn, float2ll_rz, float2ll_rd, float2ll_ru = (to_integer("float", "ll", m) for m in MODES)
float2ull_rn, float2ull_rz, float2ull_rd, float2ull_ru = (to_integer("float", "ull", m) for m in MODES)
double2int_rn, double2int_rz, double2int_rd, double2int_ru = (to_integer("double", "int", m) for m in MODES)
double2uint_rn, double2uint_rz, double2uint_rd, double2uint_ru = (to_integer("double", "uint", m) for m in MODES)
double2ll_rn, double2ll_rz, double2ll_rd, double2ll_ru = (to_integer("double", "ll", m) for m in MODES)
double2ull_rn, double2ull_rz, double2ull_rd, double2ull_ru = (to_integer("double", "ull", m) for m in MODES)
int2float_rn, int2float_rz, int2float_rd, int2float_ru = (from_integer("int", "float", m) for m in MODES)
uint2float_rn, uint2float_rz, uint2float_rd, uint2float_ru = (from_integer("uint", "float", m) for m in MODES)
ll2float_rn, ll2float_rz, ll2float_rd, ll2float_ru = (from_integer("ll", "float", m) for m in MODES)
ull2float_rn, ull2float_rz, ull2float_rd, ull2float_ru = (from_integer("ull", "float", m) for m in MODES)
ll2double_rn, ll2double_rz, ll2double_rd, ll2double_ru = (from_integer("ll", "double", m) for m in MODES)
ull2double_rn, ull2double_rz, ull2double_rd, ull2double_ru = (from_integer("ull", "double", m) for m in MODES)
int2double_rn, uint2double_rn = from_integer("int", "double", "rn"), from_integer("uint", "double", "rn")
double2float_rn, double2float_rz, double2float_rd, double2float_ru = map(double_to_float, MODES)


# --- arithmetic -------------------------------------------------------------------------------------------------

FORMS = {"add": FLOATS_2, "sub": FLOATS_2, "mul": FLOATS_2, "div": FLOATS_2, "fma": FLOATS_3, "sqrt": FLOATS_1}
EQUATIONS = {"add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "fma": "x * y + z", "sqrt": "√x"}


def _directed(operation: str, mode: str) -> Any:
    text = f"{EQUATIONS[operation]}, rounded {MODES[mode]}."
    return library_function(f"{operation}_{mode}", FORMS[operation], text)


def _reciprocal(mode: str) -> Any:
    def reciprocal(arg0: Any) -> Any:
        return extern(f"__tw_div_{mode}", (1.0, arg0))

    return named(f"rcp_{mode}", reciprocal, FLOATS_1, f"1 / x, rounded {MODES[mode]}.")


add_rn, add_rz, add_rd, add_ru = (_directed("add", mode) for mode in MODES)
sub_rn, sub_rz, sub_rd, sub_ru = (_directed("sub", mode) for mode in MODES)
mul_rn, mul_rz, mul_rd, mul_ru = (_directed("mul", mode) for mode in MODES)
div_rn, div_rz, div_rd, div_ru = (_directed("div", mode) for mode in MODES)
fma_rn, fma_rz, fma_rd, fma_ru = (_directed("fma", mode) for mode in MODES)
sqrt_rn, sqrt_rz, sqrt_rd, sqrt_ru = (_directed("sqrt", mode) for mode in MODES)
rcp_rn, rcp_rz, rcp_rd, rcp_ru = (_reciprocal(mode) for mode in MODES)


@takes("fp32 -> fp32")
def rsqrt_rn(arg0: Any) -> Any:
    """1 / √x, rounded to nearest."""
    return cast(rsqrt(cast(arg0, float64)), float32)
