"""Mathematical functions beyond `tl.math`, by libdevice's names, for the types of arguments that Triton takes.

libdevice.tanh(x)      math.tanh
libdevice.pow(x, y)    tt.extern_elementwise {symbol = "__tw_pow"}

The functions are the same on every target. Those of one op of the IR are here, the others in files by what they do.
`fast_` functions are as exact as the others, `nearbyint` is `rint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.language.extra.bessel import (
    cyl_bessel_i0,
    cyl_bessel_i1,
    j0,
    j1,
    jn,
    y0,
    y1,
    yn,
)
from tilewright.language.extra.bits import (
    brev,
    byte_perm,
    clz,
    ffs,
    hadd,
    mul24,
    mulhi,
    popc,
    rhadd,
    sad,
)
from tilewright.language.extra.conversions import (
    double2float_rd,
    double2float_rn,
    double2float_ru,
    double2float_rz,
    double2hiint,
    double2int_rd,
    double2int_rn,
    double2int_ru,
    double2int_rz,
    double2ll_rd,
    double2ll_rn,
    double2ll_ru,
    double2ll_rz,
    double2loint,
    double2uint_rd,
    double2uint_rn,
    double2uint_ru,
    double2uint_rz,
    double2ull_rd,
    double2ull_rn,
    double2ull_ru,
    double2ull_rz,
    double_as_longlong,
    float2int_rd,
    float2int_rn,
    float2int_ru,
    float2int_rz,
    float2ll_rd,
    float2ll_rn,
    float2ll_ru,
    float2ll_rz,
    float2uint_rd,
    float2uint_rn,
    float2uint_ru,
    float2uint_rz,
    float2ull_rd,
    float2ull_rn,
    float2ull_ru,
    float2ull_rz,
    float_as_int,
    float_as_uint,
    hiloint2double,
    int2double_rn,
    int2float_rd,
    int2float_rn,
    int2float_ru,
    int2float_rz,
    int_as_float,
    ll2double_rd,
    ll2double_rn,
    ll2double_ru,
    ll2double_rz,
    ll2float_rd,
    ll2float_rn,
    ll2float_ru,
    ll2float_rz,
    longlong_as_double,
    uint2double_rn,
    uint2float_rd,
    uint2float_rn,
    uint2float_ru,
    uint2float_rz,
    uint_as_float,
    ull2double_rd,
    ull2double_rn,
    ull2double_ru,
    ull2double_rz,
    ull2float_rd,
    ull2float_rn,
    ull2float_ru,
    ull2float_rz,
)
from tilewright.language.extra.directed import (
    add_rd,
    add_rn,
    add_ru,
    add_rz,
    div_rd,
    div_rn,
    div_ru,
    div_rz,
    fma_rd,
    fma_rn,
    fma_ru,
    fma_rz,
    mul_rd,
    mul_rn,
    mul_ru,
    mul_rz,
    rcp_rd,
    rcp_rn,
    rcp_ru,
    rcp_rz,
    rsqrt_rn,
    sqrt_rd,
    sqrt_rn,
    sqrt_ru,
    sqrt_rz,
    sub_rd,
    sub_rn,
    sub_ru,
    sub_rz,
)
from tilewright.language.extra.error_functions import (
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    normcdf,
    normcdfinv,
)
from tilewright.language.extra.float_parts import (
    copysign,
    fdim,
    finitef,
    ilogb,
    isfinited,
    isinf,
    isnan,
    ldexp,
    llrint,
    llround,
    logb,
    nextafter,
    rcp64h,
    remainder,
    saturatef,
    scalbn,
    signbit,
)
from tilewright.language.extra.forms import FLOATS_1, FLOATS_2, FLOATS_3, takes
from tilewright.language.extra.gamma import (
    cospi,
    lgamma,
    sinpi,
    tgamma,
)
from tilewright.language.extra.norms import (
    hypot,
    norm3d,
    norm4d,
    rcbrt,
    rhypot,
    rnorm3d,
    rnorm4d,
)
from tilewright.language.operations import cast
from tilewright.semantics.arithmetic import truediv
from tilewright.semantics.math import absolute, extern, unary_float
from tilewright.semantics.math import fma as fused
from tilewright.semantics.types import float64

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add_rd",
    "add_rn",
    "add_ru",
    "add_rz",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "brev",
    "byte_perm",
    "cbrt",
    "ceil",
    "clz",
    "copysign",
    "cos",
    "cosh",
    "cospi",
    "cyl_bessel_i0",
    "cyl_bessel_i1",
    "div_rd",
    "div_rn",
    "div_ru",
    "div_rz",
    "double2float_rd",
    "double2float_rn",
    "double2float_ru",
    "double2float_rz",
    "double2hiint",
    "double2int_rd",
    "double2int_rn",
    "double2int_ru",
    "double2int_rz",
    "double2ll_rd",
    "double2ll_rn",
    "double2ll_ru",
    "double2ll_rz",
    "double2loint",
    "double2uint_rd",
    "double2uint_rn",
    "double2uint_ru",
    "double2uint_rz",
    "double2ull_rd",
    "double2ull_rn",
    "double2ull_ru",
    "double2ull_rz",
    "double_as_longlong",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
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
    "ffs",
    "finitef",
    "float2int_rd",
    "float2int_rn",
    "float2int_ru",
    "float2int_rz",
    "float2ll_rd",
    "float2ll_rn",
    "float2ll_ru",
    "float2ll_rz",
    "float2uint_rd",
    "float2uint_rn",
    "float2uint_ru",
    "float2uint_rz",
    "float2ull_rd",
    "float2ull_rn",
    "float2ull_ru",
    "float2ull_rz",
    "float_as_int",
    "float_as_uint",
    "floor",
    "fma",
    "fma_rd",
    "fma_rn",
    "fma_ru",
    "fma_rz",
    "fmod",
    "hadd",
    "hiloint2double",
    "hypot",
    "ilogb",
    "int2double_rn",
    "int2float_rd",
    "int2float_rn",
    "int2float_ru",
    "int2float_rz",
    "int_as_float",
    "isfinited",
    "isinf",
    "isnan",
    "j0",
    "j1",
    "jn",
    "ldexp",
    "lgamma",
    "ll2double_rd",
    "ll2double_rn",
    "ll2double_ru",
    "ll2double_rz",
    "ll2float_rd",
    "ll2float_rn",
    "ll2float_ru",
    "ll2float_rz",
    "llrint",
    "llround",
    "log",
    "log1p",
    "log2",
    "log10",
    "logb",
    "longlong_as_double",
    "mul24",
    "mul_rd",
    "mul_rn",
    "mul_ru",
    "mul_rz",
    "mulhi",
    "nearbyint",
    "nextafter",
    "norm3d",
    "norm4d",
    "normcdf",
    "normcdfinv",
    "popc",
    "pow",
    "rcbrt",
    "rcp64h",
    "rcp_rd",
    "rcp_rn",
    "rcp_ru",
    "rcp_rz",
    "remainder",
    "rhadd",
    "rhypot",
    "rint",
    "rnorm3d",
    "rnorm4d",
    "round",
    "rsqrt",
    "rsqrt_rn",
    "sad",
    "saturatef",
    "scalbn",
    "signbit",
    "sin",
    "sinh",
    "sinpi",
    "sqrt",
    "sqrt_rd",
    "sqrt_rn",
    "sqrt_ru",
    "sqrt_rz",
    "sub_rd",
    "sub_rn",
    "sub_ru",
    "sub_rz",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
    "uint2double_rn",
    "uint2float_rd",
    "uint2float_rn",
    "uint2float_ru",
    "uint2float_rz",
    "uint_as_float",
    "ull2double_rd",
    "ull2double_rn",
    "ull2double_ru",
    "ull2double_rz",
    "ull2float_rd",
    "ull2float_rn",
    "ull2float_ru",
    "ull2float_rz",
    "y0",
    "y1",
    "yn",
]


def _of_op(name: str, op: str, *forms: str) -> Any:
    """A function that is an op of the IR."""

    def function(arg0: Any) -> Any:
        return unary_float(op, arg0)

    return _finished(name, function, forms or FLOATS_1)


def _unary(name: str, symbol: str = "", *forms: str) -> Any:
    """The library function of one float."""

    def function(arg0: Any) -> Any:
        return extern(f"__tw_{symbol or name}", (arg0,))

    return _finished(name, function, forms or FLOATS_1)


def _binary(name: str, symbol: str = "", *forms: str) -> Any:
    """The library function of two floats."""

    def function(arg0: Any, arg1: Any) -> Any:
        return extern(f"__tw_{symbol or name}", (arg0, arg1))

    return _finished(name, function, forms or FLOATS_2)


def _finished(name: str, function: Any, forms: Sequence[str]) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of each element."
    return takes(*forms)(function)


SINGLE = "fp32 -> fp32"
SINGLES = "fp32, fp32 -> fp32"
acos, acosh, asin, asinh, atan, atanh = map(_unary, ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
sinh, cosh, tan, cbrt, log1p, expm1 = map(_unary, ("sinh", "cosh", "tan", "cbrt", "log1p", "expm1"))
log10, exp10, round, trunc, rint = map(_unary, ("log10", "exp10", "round", "trunc", "rint"))
nearbyint = _unary("nearbyint", "rint")
atan2, fmod = _binary("atan2"), _binary("fmod")
sin, cos, exp, exp2 = (_of_op(name, f"math.{name}") for name in ("sin", "cos", "exp", "exp2"))
log, log2, sqrt, rsqrt = (_of_op(name, f"math.{name}") for name in ("log", "log2", "sqrt", "rsqrt"))
floor, ceil, erf, tanh = (_of_op(name, f"math.{name}") for name in ("floor", "ceil", "erf", "tanh"))
fast_sinf, fast_cosf = _of_op("fast_sinf", "math.sin", SINGLE), _of_op("fast_cosf", "math.cos", SINGLE)
fast_expf, fast_tanhf = _of_op("fast_expf", "math.exp", SINGLE), _of_op("fast_tanhf", "math.tanh", SINGLE)
fast_logf, fast_log2f = _of_op("fast_logf", "math.log", SINGLE), _of_op("fast_log2f", "math.log2", SINGLE)
fast_exp10f, fast_log10f = _unary("fast_exp10f", "exp10", SINGLE), _unary("fast_log10f", "log10", SINGLE)
fast_tanf, fast_powf = _unary("fast_tanf", "tan", SINGLE), _binary("fast_powf", "pow", SINGLES)


@takes(*FLOATS_1, "int32 -> int32", "int64 -> int64")
def abs(arg0: Any) -> Any:
    """The value without its sign."""
    return absolute(arg0)


@takes(*FLOATS_3)
def fma(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """x * y + z, rounded once."""
    return fused(arg0, arg1, arg2)


@takes(SINGLES)
def fast_dividef(arg0: Any, arg1: Any) -> Any:
    """The quotient."""
    return truediv(arg0, arg1)


@takes(*FLOATS_2, "fp32, int32 -> fp32", "fp64, int32 -> fp64")
def pow(arg0: Any, arg1: Any) -> Any:
    """x to the power of y."""
    if arg1.type.scalar.is_floating():
        return extern("__tw_pow", (arg0, arg1))
    return cast(extern("__tw_pow", (cast(arg0, float64), cast(arg1, float64))), arg0.type.scalar)
