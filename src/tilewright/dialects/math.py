"""Mathematical functions: `math.exp`, `math.sqrt`, `math.fma`, … (the ones MLIR has; others are extern calls)."""

from __future__ import annotations

from tilewright.dialects.arithmetic_meaning import MEANINGS
from tilewright.dialects.formats import ELEMENTWISE
from tilewright.dialects.rules import float_type, integer_type
from tilewright.ir.declare import declare

FLOAT_UNARY = (
    *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf"),
    *("floor", "ceil", "absf"),
)

for _name, _operands, _rule in (
    *((name, 1, float_type) for name in FLOAT_UNARY),
    ("fma", 3, float_type),
    ("absi", 1, integer_type),
):
    declare(
        f"math.{_name}",
        operands=(_operands, _operands),
        results=1,
        elementwise=True,
        verify=_rule,
        meaning=MEANINGS[f"math.{_name}"],
        **ELEMENTWISE,
    )
