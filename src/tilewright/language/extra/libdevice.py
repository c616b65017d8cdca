"""Mathematical functions beyond `tl.math`, by libdevice's names; fp32 and fp64.

libdevice.tanh(x)      math.tanh
libdevice.pow(x, y)    tt.extern_elementwise {symbol = "__tw_pow"}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language import operations
from tilewright.language.extra.bessel import cyl_bessel_i0, cyl_bessel_i1, j0, j1, jn, y0, y1, yn
from tilewright.language.math import abs, ceil, cos, erf, exp, exp2, floor, fma, log, log2, rsqrt, sin, sqrt
from tilewright.semantics.arithmetic import common_operands, or_, shl, shr, sub, to_tensor, truediv, xor
from tilewright.semantics.casting import bitcast, cast
from tilewright.semantics.comparison import compare
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.math import WIDE_FLOATS, check_element, extern, unary_float
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import dtype, float32, float64, int32, int64, uint32, uint64

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "cyl_bessel_i0",
    "cyl_bessel_i1",
    "div_rn",
    "double_as_longlong",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "fast_cosf",
    "fast_dividef",
    "fast_exp10f",
    "fast_expf",
    "fast_log2f",
    "fast_log10f",
    "fast_logf",
    "fast_powf",
    "fast_sinf",
    "fast_tanf",
    "fast_tanhf",
    "fdim",
    "finitef",
    "float_as_int",
    "float_as_uint",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "int_as_float",
    "isfinited",
    "isinf",
    "isnan",
    "j0",
    "j1",
    "jn",
    "log",
    "log1p",
    "log2",
    "log10",
    "longlong_as_double",
    "nearbyint",
    "pow",
    "rint",
    "round",
    "rsqrt",
    "saturatef",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "sqrt_rn",
    "tan",
    "tanh",
    "trunc",
    "uint_as_float",
    "y0",
    "y1",
    "yn",
]


def _unary(name: str) -> Callable[[Any], Any]:
    """The library function `name` of one float."""

    def function(arg0: Any) -> Any:
        tile = to_tensor(arg0)
        check_element(name, tile, WIDE_FLOATS)
        return extern(f"__tw_{name}", (tile,))

    function.__name__ = name
    function.__doc__ = f"`{name}` of each element."
    return function


def _binary(name: str) -> Callable[[Any, Any], Any]:
    """The library function `name` of two floats."""

    def function(arg0: Any, arg1: Any) -> Any:
        first, second = common_operands(arg0, arg1, operation=name)
        check_element(name, first, WIDE_FLOATS)
        return extern(f"__tw_{name}", (first, second))

    function.__name__ = name
    function.__doc__ = f"`{name}` of each pair of elements."
    return function


acos, acosh, asin, asinh, atan, atanh = map(_unary, ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
sinh, cosh, tan, cbrt, log1p, expm1 = map(_unary, ("sinh", "cosh", "tan", "cbrt", "log1p", "expm1"))
log10, exp10, round, trunc, rint = map(_unary, ("log10", "exp10", "round", "trunc", "rint"))
nearbyint = rint
pow, atan2, fmod = map(_binary, ("pow", "atan2", "fmod"))
fast_expf, fast_logf, fast_log2f, fast_sinf, fast_cosf = exp, log, log2, sin, cos
fast_exp10f, fast_log10f, fast_powf, fast_tanf = exp10, log10, pow, tan


def tanh(arg0: Any) -> Any:
    """The hyperbolic tangent."""
    return unary_float("math.tanh", arg0)


fast_tanhf = tanh


def sqrt_rn(arg0: Any) -> Any:
    """The correctly rounded square root."""
    tile = to_tensor(arg0)
    return unary_float("tt.precise_sqrt" if tile.type.scalar is float32 else "math.sqrt", tile)


def div_rn(arg0: Any, arg1: Any) -> Any:
    """The quotient."""
    return truediv(arg0, arg1)


def fast_dividef(arg0: Any, arg1: Any) -> Any:
    """The quotient."""
    return truediv(arg0, arg1)


def hypot(arg0: Any, arg1: Any) -> Any:
    """sqrt(x**2 + y**2), without overflow in between."""
    first, second = abs(arg0), abs(arg1)
    large, small = operations.maximum(first, second), operations.minimum(first, second)
    ratio = truediv(small, operations.where(compare("==", large, 0.0), 1.0, large))
    finite = operations.mul(large, sqrt(fma(ratio, ratio, 1.0)))
    return operations.where(isinf(large), large, finite)


def fdim(arg0: Any, arg1: Any) -> Any:
    """x - y where that is positive, else 0."""
    first, second = common_operands(arg0, arg1, operation="fdim")
    return operations.where(compare("<=", first, second), 0.0, sub(first, second))


def saturatef(arg0: Any) -> Any:
    """The value kept between 0 and 1."""
    return operations.clamp(arg0, 0.0, 1.0)


def isnan(arg0: Any) -> Any:
    """Whether the value is NaN."""
    return compare("!=", _float(arg0, "isnan"), arg0)


def isinf(arg0: Any) -> Any:
    """Whether the value is infinite."""
    return compare("==", abs(_float(arg0, "isinf")), float("inf"))


def finitef(arg0: Any) -> Any:
    """Whether the value is finite."""
    return compare("<", abs(_float(arg0, "finitef")), float("inf"))


isfinited = finitef


def signbit(arg0: Any) -> Any:
    """1 where the sign bit is set, else 0."""
    tile = _float(arg0, "signbit")
    bits = _bits(tile)
    return cast(shr(bits, bits.type.scalar.primitive_bitwidth - 1), int32)


def copysign(arg0: Any, arg1: Any) -> Any:
    """The magnitude of the first with the sign of the second."""
    first, second = common_operands(arg0, arg1, operation="copysign")
    check_element("copysign", first, WIDE_FLOATS)
    magnitude, sign = _bits(first), _bits(second)
    shift = magnitude.type.scalar.primitive_bitwidth - 1
    rest = xor(magnitude, shl(shr(magnitude, shift), shift))
    return bitcast(or_(rest, shl(shr(sign, shift), shift)), first.type.scalar)


def _bitcast_to(target: dtype) -> Callable[[Any], Any]:
    def function(arg0: Any) -> Any:
        return bitcast(to_tensor(unwrap(arg0)), target)

    function.__doc__ = f"The bits as {target}."
    return function


float_as_int, float_as_uint = _bitcast_to(int32), _bitcast_to(uint32)
int_as_float = uint_as_float = _bitcast_to(float32)
double_as_longlong, longlong_as_double = _bitcast_to(int64), _bitcast_to(float64)


def _float(value: Any, operation: str) -> Tile:
    tile = to_tensor(value)
    check_element(operation, tile, WIDE_FLOATS)
    return tile


def _bits(tile: Tile) -> Tile:
    return bitcast(tile, uint32 if tile.type.scalar is float32 else uint64)
