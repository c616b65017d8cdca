"""Mathematical functions: `math.exp`, `math.sqrt`, `math.fma`, … (the ones MLIR has; others are extern calls)."""

from __future__ import annotations

from tilewright.dialects.arith import Unary
from tilewright.dialects.formats import ELEMENTWISE
from tilewright.dialects.rules import float_type, integer_type
from tilewright.ir.core import Op
from tilewright.ir.declare import declare
from tilewright.ir.fields import Operand

APPROXIMATE = ("exp", "exp2", "log", "log2", "rsqrt", "sin", "cos", "tanh", "erf")
EXACT = ("sqrt", "floor", "ceil", "absf")


class Exact(Unary):
    """A function whose result is exact or correctly rounded, by one instruction of most machines."""

    __slots__ = ()


class Approximate(Unary):
    """A function that is computed by several instructions, with errors."""

    __slots__ = ()


class Fma(Op):
    """a · b + c, rounded once."""

    __slots__ = ()
    a, b, c = Operand(0), Operand(1), Operand(2)


for _name, _kind, _rule in (
    *((name, Approximate, float_type) for name in APPROXIMATE),
    *((name, Exact, float_type) for name in EXACT),
    ("fma", Fma, float_type),
    ("absi", Exact, integer_type),
    ("ctlz", Exact, integer_type),
    ("ctpop", Exact, integer_type),
):
    declare(f"math.{_name}", kind=_kind, results=1, elementwise=True, verify=_rule, **ELEMENTWISE)
