"""Mathematical functions of elements: `tl.exp`, `tl.math.fma`, …

As in Triton, exp, log, sin and their like take only fp32 and fp64: convert with `.to(tl.float32)` first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.language.deprecated import deprecated as _deprecated
from tilewright.semantics import arithmetic
from tilewright.semantics import math as math_semantics
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.math import WIDE_FLOATS, unary_float
from tilewright.semantics.types import dtype, float32


def _unary(name: str, op: str, doc: str, *accepted: dtype) -> Callable[[Any], Any]:
    """The function that is the op `op` of each element, of fp32 and fp64 unless `accepted` says otherwise."""

    def function(x: Any) -> Any:
        return unary_float(op, x, accepted=accepted or WIDE_FLOATS)

    function.__name__ = function.__qualname__ = name
    kinds = " or ".join(kind.name for kind in accepted or WIDE_FLOATS)
    function.__doc__ = f"""{doc}

    Args:
        x: a tile or scalar of {kinds}; others are converted first, with `x.to(tl.float32)`.

    Raises:
        SemanticError: elements of another type.
    """
    return function


exp = _unary("exp", "math.exp", "e to the power of x.")
exp2 = _unary("exp2", "math.exp2", "2 to the power of x.")
log = _unary("log", "math.log", "The natural logarithm.")
log2 = _unary("log2", "math.log2", "The logarithm to base 2.")
sin = _unary("sin", "math.sin", "The sine of x in radians.")
cos = _unary("cos", "math.cos", "The cosine of x in radians.")
sqrt = _unary("sqrt", "math.sqrt", "The square root, possibly not rounded correctly.")
sqrt_rn = _unary("sqrt_rn", "tt.precise_sqrt", "The correctly rounded square root of fp32 values.", float32)
rsqrt = _unary("rsqrt", "math.rsqrt", "1 / sqrt(x).")
erf = _unary("erf", "math.erf", "The error function.")
floor = _unary("floor", "math.floor", "The largest whole number that is not above x.")
ceil = _unary("ceil", "math.ceil", "The smallest whole number that is not below x.")


def abs(x: Any) -> Any:
    """The value without its sign.

    Args:
        x: a tile or number; for the smallest integer of its type the result is that integer.
    """
    return math_semantics.absolute(x)


def fdiv(x: Any, y: Any, ieee_rounding: Any = False, approx: Any = False) -> Any:
    """x / y of floats; `ieee_rounding` asks for the correctly rounded quotient, `approx` allows an approximate one.

    Args:
        x, y: tiles or numbers of floats, which broadcast.
        ieee_rounding: round correctly.
        approx: an approximate quotient is enough, on GPUs.
    """
    return arithmetic.fdiv(x, y, rounded=bool(unwrap(ieee_rounding)), approximate=bool(unwrap(approx)))


def div_rn(x: Any, y: Any) -> Any:
    """The correctly rounded quotient of fp32 values.

    Args:
        x, y: tiles of fp32, which broadcast.
    """
    return math_semantics.div_rn(x, y)


def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once.

    Args:
        x, y, z: tiles or numbers, which broadcast and promote.
    """
    return math_semantics.fma(x, y, z)


def umulhi(x: Any, y: Any) -> Any:
    """The high half of the product of 32- or 64-bit integers, taken as unsigned.

    Args:
        x, y: integer tiles, which broadcast; a number adapts to the tile.
    """
    return math_semantics.umulhi(x, y)


def __getattr__(name: str) -> Any:
    return _deprecated("tl.math", name)


accept_semantic(globals())
