"""Mathematical functions beyond `tl.math`, by libdevice's names, for the types of arguments that Triton takes.

libdevice.tanh(x)      math.tanh
libdevice.pow(x, y)    tt.extern_elementwise {symbol = "__tw_pow"}

The functions are the same on every target. Functions that are one op of the IR are here, the others in files by topic.
`fast_` functions are as exact as the others, `nearbyint` is `rint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.language.extra import bessel, bits, directed, float_parts, special_functions
from tilewright.language.extra.forms import FLOATS_1, FLOATS_2, FLOATS_3, functions_of, library_function, named, takes
from tilewright.language.operations import cast
from tilewright.semantics.arithmetic import truediv
from tilewright.semantics.math import absolute, extern, unary_float
from tilewright.semantics.math import fma as fused
from tilewright.semantics.types import float64

for _file in (bessel, bits, directed, float_parts, special_functions):
    globals().update(functions_of(vars(_file)))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A function of one of these files."""


def _of_op(name: str, op: str = "", forms: Sequence[str] = FLOATS_1) -> Any:
    """A function that is an op of the IR, by default that of the same name."""

    def function(arg0: Any) -> Any:
        return unary_float(f"math.{op or name}", arg0)

    return named(name, function, forms, f"`{name}` of each element.")


SINGLE = ("fp32 -> fp32",)
SINGLES = ("fp32, fp32 -> fp32",)
acos, acosh, asin, asinh, atan, atanh = map(library_function, ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
sinh, cosh, tan, cbrt, log1p, expm1 = map(library_function, ("sinh", "cosh", "tan", "cbrt", "log1p", "expm1"))
log10, exp10, round, trunc, rint = map(library_function, ("log10", "exp10", "round", "trunc", "rint"))
nearbyint = library_function("nearbyint", symbol="rint")
atan2, fmod = library_function("atan2", FLOATS_2), library_function("fmod", FLOATS_2)
sin, cos, exp, exp2, log, log2 = map(_of_op, ("sin", "cos", "exp", "exp2", "log", "log2"))
sqrt, rsqrt, floor, ceil, erf, tanh = map(_of_op, ("sqrt", "rsqrt", "floor", "ceil", "erf", "tanh"))
fast_sinf, fast_cosf = _of_op("fast_sinf", "sin", SINGLE), _of_op("fast_cosf", "cos", SINGLE)
fast_expf, fast_tanhf = _of_op("fast_expf", "exp", SINGLE), _of_op("fast_tanhf", "tanh", SINGLE)
fast_logf, fast_log2f = _of_op("fast_logf", "log", SINGLE), _of_op("fast_log2f", "log2", SINGLE)
fast_exp10f = library_function("fast_exp10f", SINGLE, symbol="exp10")
fast_log10f = library_function("fast_log10f", SINGLE, symbol="log10")
fast_tanf = library_function("fast_tanf", SINGLE, symbol="tan")
fast_powf = library_function("fast_powf", SINGLES, symbol="pow")


@takes(*FLOATS_1, "int32 -> int32", "int64 -> int64")
def abs(arg0: Any) -> Any:
    """The value without its sign."""
    return absolute(arg0)


@takes(*FLOATS_3)
def fma(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """x * y + z, rounded once."""
    return fused(arg0, arg1, arg2)


@takes(*SINGLES)
def fast_dividef(arg0: Any, arg1: Any) -> Any:
    """The quotient."""
    return truediv(arg0, arg1)


@takes(*FLOATS_2, "fp32, int32 -> fp32", "fp64, int32 -> fp64")
def pow(arg0: Any, arg1: Any) -> Any:
    """x to the power of y."""
    if arg1.type.scalar.is_floating():
        return extern("__tw_pow", (arg0, arg1))
    return cast(extern("__tw_pow", (cast(arg0, float64), cast(arg1, float64))), arg0.type.scalar)


__all__ = sorted(functions_of(globals()))
