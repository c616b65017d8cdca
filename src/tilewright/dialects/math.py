"""Mathematical functions: `math.exp`, `math.sqrt`, `math.fma`, … (the ones MLIR has; others are extern calls)."""

from __future__ import annotations

from tilewright.dialects.formats import ELEMENTWISE
from tilewright.dialects.rules import float_type, integer_type
from tilewright.ir.declare import declare

FLOAT_UNARY = (
    *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf"),
    *("floor", "ceil", "absf"),
)

for _name in FLOAT_UNARY:
    declare(f"math.{_name}", operands=(1, 1), results=1, elementwise=True, verify=float_type, **ELEMENTWISE)
declare("math.fma", operands=(3, 3), results=1, elementwise=True, verify=float_type, **ELEMENTWISE)
declare("math.absi", operands=(1, 1), results=1, elementwise=True, verify=integer_type, **ELEMENTWISE)
