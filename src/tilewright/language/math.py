"""Mathematical functions of elements: `tl.exp`, `tl.math.fma`, …

As in Triton, exp, log, sin and their like take only fp32 and fp64: convert with `.to(tl.float32)` first.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.language.deprecated import deprecated as _deprecated
from tilewright.semantics import arithmetic
from tilewright.semantics import math as math_semantics
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.math import unary_float
from tilewright.semantics.types import float32


def exp(x: Any) -> Any:
    """e to the power of x."""
    return unary_float("math.exp", x)


def exp2(x: Any) -> Any:
    """2 to the power of x."""
    return unary_float("math.exp2", x)


def log(x: Any) -> Any:
    """The natural logarithm."""
    return unary_float("math.log", x)


def log2(x: Any) -> Any:
    """The logarithm to base 2."""
    return unary_float("math.log2", x)


def sin(x: Any) -> Any:
    """The sine of x in radians."""
    return unary_float("math.sin", x)


def cos(x: Any) -> Any:
    """The cosine of x in radians."""
    return unary_float("math.cos", x)


def sqrt(x: Any) -> Any:
    """The square root, possibly not rounded correctly."""
    return unary_float("math.sqrt", x)


def sqrt_rn(x: Any) -> Any:
    """The correctly rounded square root of fp32 values."""
    return unary_float("tt.precise_sqrt", x, accepted=(float32,))


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return unary_float("math.rsqrt", x)


def erf(x: Any) -> Any:
    """The error function."""
    return unary_float("math.erf", x)


def floor(x: Any) -> Any:
    """The largest whole number that is not above x."""
    return unary_float("math.floor", x)


def ceil(x: Any) -> Any:
    """The smallest whole number that is not below x."""
    return unary_float("math.ceil", x)


def abs(x: Any) -> Any:
    """The value without its sign."""
    return math_semantics.absolute(x)


def fdiv(x: Any, y: Any, ieee_rounding: Any = False, approx: Any = False) -> Any:
    """x / y of floats; `ieee_rounding` asks for the correctly rounded quotient, `approx` allows a rough one."""
    return arithmetic.fdiv(x, y, rounded=bool(unwrap(ieee_rounding)), approximate=bool(unwrap(approx)))


def div_rn(x: Any, y: Any) -> Any:
    """The correctly rounded quotient of fp32 values."""
    return math_semantics.div_rn(x, y)


def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once."""
    return math_semantics.fma(x, y, z)


def umulhi(x: Any, y: Any) -> Any:
    """The high half of the product of 32- or 64-bit integers, taken as unsigned."""
    return math_semantics.umulhi(x, y)


def __getattr__(name: str) -> Any:
    return _deprecated("tl.math", name)


accept_semantic(globals())
