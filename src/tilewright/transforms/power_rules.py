"""Powers with small constant exponents are products: a power takes twenty to forty times as long as one."""

from __future__ import annotations

from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.ir.core import Op, Value
from tilewright.ir.rewriter import Rewriter
from tilewright.transforms.equations import Equation
from tilewright.transforms.matching import number_of

POWER = "__tw_pow"


def power_with_constant(op: ExternElementwise, rewriter: Rewriter) -> bool:
    """pow(x, 1) → x;   pow(x, -1) → 1 / x;   pow(x, 2) → x · x;   pow(x, 3) → x · x · x"""
    if op.symbol != POWER:
        return False
    base, exponent = op.operands
    number = number_of(exponent)
    if number is None or base.type is not op.result.type:
        return False
    made = _power(op, base, number.value, rewriter)
    if made is None:
        return False
    rewriter.replace(op, [made])
    return True


def _power(op: Op, x: Value, exponent: float, rewriter: Rewriter) -> Value | None:
    if exponent == 1:
        return x
    if exponent == -1:
        return rewriter.create(op, "arith.divf", (rewriter.constant(1.0, x.type), x), (x.type,)).result
    if exponent not in (2, 3):
        return None
    square = _product(op, x, x, rewriter)
    return square if exponent == 2 else _product(op, square, x, rewriter)


def _product(op: Op, x: Value, y: Value, rewriter: Rewriter) -> Value:
    return rewriter.create(op, "arith.mulf", (x, y), (x.type,)).result


ROWS = (
    Equation.of(
        power_with_constant,
        "tt.extern_elementwise",
        given="the exponent is 1, -1, 2 or 3",
        reason="these are at most 1.5 ulp off; longer products are further from the power than `pow` is",
    ),
)
