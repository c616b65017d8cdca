"""The math library: every function as inline instructions, without libm.

`FUNCTIONS[name](x, …)` takes and returns Lanes of float or double. Narrower formats compute in float and round.
Functions whose float version would save little compute in double and round: their error is half an ulp.

Largest errors in ulp, float / double; tests/llvm/test_llvm_math.py tests them on edge cases and random numbers, and
test_llvm_every_float.py those of float on every float:

    exp        1 / 1.5         log   0.85 / 1.5       sin cos  0.94 / 1.6      erf       1 / 2
    exp2    1.15 / 1.5         log2   1.15 / 2        tan       0.5 / 2.1      tanh      1 / 2
    expm1    1.2 / 1.5         pow    0.5 / 2         rsqrt     1.5 / 1.5      sigmoid   2.6 / 2.5
    log1p      1 / 2           log10  1.75 / 2        sinh       2 / 2         atanh   1.9 / 2
    asinh      2 / 2           acosh     2 / 2.2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.backends.llvm import math_exponential as exponential
from tilewright.backends.llvm import math_logarithm as logarithm
from tilewright.backends.llvm import math_sine
from tilewright.backends.llvm import math_special as special
from tilewright.backends.llvm import math_trigonometric as trigonometric
from tilewright.backends.llvm.lanes import Lanes
from tilewright.backends.llvm.math_directed import MODES, OPCODES, directed
from tilewright.backends.llvm.math_fused import fused_multiply_add

MathFunction: TypeAlias = Callable[..., Lanes]


def square_root(x: Lanes) -> Lanes:
    return x.kind.call("llvm.sqrt", x)


def reciprocal_square_root(x: Lanes) -> Lanes:
    return 1.0 / square_root(x)


def round_half_away(x: Lanes) -> Lanes:
    """Round to the nearest integer, halves away from zero."""
    k = x.kind
    whole = k.call("llvm.trunc", x)
    further = whole + k.with_sign_of(k(1.0), x)
    return k.with_sign_of(k.select(abs(x - whole) >= 0.5, further, whole), x)


def intrinsic(name: str) -> MathFunction:
    """An LLVM intrinsic that is an instruction on every target."""
    return lambda first, *others: first.kind.call(name, first, *others)


def through_double(function: MathFunction, in_double: MathFunction | None = None) -> MathFunction:
    """A function of double made one of float too; `in_double` is a cheaper version that is exact enough for that."""

    def applied(first: Lanes, *others: Lanes) -> Lanes:
        k = first.kind
        if k.element == "double":
            return function(first, *others)
        double = k.with_element("double")
        widened = (double.cast("fpext", x) for x in (first, *others))
        return k.cast("fptrunc", (in_double or function)(*widened))

    return applied


def by_width(of_float: MathFunction, of_double: MathFunction) -> MathFunction:
    """One function from two."""
    return lambda x: (of_float if x.kind.element == "float" else of_double)(x)


def _rounded(operation: str, mode: str) -> MathFunction:
    return lambda *operands: directed(operation, mode, operands)


DIRECTED = {f"{operation}_{mode}": _rounded(operation, mode) for operation in OPCODES for mode in MODES}
"""Arithmetic rounded as the name says: to nearest, towards zero, down, up."""
FUNCTIONS: dict[str, MathFunction] = {
    **DIRECTED,
    "absf": abs,
    "acos": through_double(trigonometric.acos),
    "acosh": logarithm.acosh,
    "asin": through_double(trigonometric.asin, trigonometric.asin_in_double),
    "asinh": logarithm.asinh,
    "atan": through_double(trigonometric.atan),
    "atan2": through_double(trigonometric.atan2),
    "atanh": logarithm.atanh,
    "cbrt": through_double(logarithm.cbrt),
    "ceil": intrinsic("llvm.ceil"),
    "copysign": lambda x, y: x.kind.with_sign_of(x, y),
    "cos": by_width(math_sine.cos, trigonometric.cos),
    "cosh": through_double(exponential.cosh),
    "erf": special.erf,
    "exp": exponential.exp,
    "exp10": through_double(exponential.exp10),
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "floor": intrinsic("llvm.floor"),
    "fma": fused_multiply_add,
    "fmod": special.remainder,
    "log": logarithm.log,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "pow": through_double(logarithm.pow, logarithm.pow_in_double),
    "rint": intrinsic("llvm.roundeven"),
    "round": round_half_away,
    "rsqrt": reciprocal_square_root,
    "sigmoid": exponential.sigmoid,
    "sin": by_width(math_sine.sin, trigonometric.sin),
    "sinh": exponential.sinh,
    "sqrt": square_root,
    "tan": through_double(trigonometric.tan, trigonometric.tan_in_double),
    "tanh": exponential.tanh,
    "trunc": intrinsic("llvm.trunc"),
}
