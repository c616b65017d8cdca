"""Powers with small constant exponents become products and roots, which are five to forty times as fast."""

from __future__ import annotations

from math import inf

from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Op, Value
from tilewright.ir.rewriter import Rewriter
from tilewright.ir.types import f32, i1, with_element
from tilewright.transforms.equations import Equation
from tilewright.transforms.matching import number_of

POWER = "__tw_pow"


def power_with_constant(op: ExternElementwise, rewriter: Rewriter) -> bool:
    """pow(x, 1) → x;   pow(x, -1) → 1/x;   pow(x, 2) → x · x;   pow(x, 3) → x · x · x;   pow(x, ±½), pow(x, 1½): √x"""
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
    if exponent in _AT_MINUS_INFINITY:
        return _power_by_root(op, x, exponent, rewriter)
    if exponent not in (2, 3):
        return None
    square = _product(op, x, x, rewriter)
    return square if exponent == 2 else _product(op, square, x, rewriter)


_AT_MINUS_INFINITY = {0.5: inf, -0.5: 0.0, 1.5: inf}
"""Powers of -inf with the exponents that take a root, of which IEEE 754 says that they are no NaN."""


def _power_by_root(op: Op, x: Value, exponent: float, rewriter: Rewriter) -> Value:
    """√(x + 0), 1 / √(x + 0) or x · √x, but for -inf; √-0 is -0, and no such power is."""
    single = x.type.scalar is f32

    def number(value: float) -> Value:
        return rewriter.constant(value, x.type)

    def emit(name: str, *operands: Value) -> Value:
        return rewriter.create(op, name, operands, (x.type,)).result

    positive = x if exponent == 1.5 else emit("arith.addf", x, number(0.0))
    root = emit("tt.precise_sqrt" if single else "math.sqrt", positive)
    if exponent == -0.5:
        root = emit("tt.precise_divf" if single else "arith.divf", number(1.0), root)
    elif exponent == 1.5:
        root = _product(op, x, root, rewriter)
    compared: dict[str, Attribute] = {"predicate": Keyword("oeq")}
    truth = (with_element(x.type, i1),)
    is_lowest = rewriter.create(op, "arith.cmpf", (x, number(-inf)), truth, compared).result
    return emit("arith.select", is_lowest, number(_AT_MINUS_INFINITY[exponent]), root)


def _product(op: Op, x: Value, y: Value, rewriter: Rewriter) -> Value:
    return rewriter.create(op, "arith.mulf", (x, y), (x.type,)).result


ROWS = (
    Equation.of(
        power_with_constant,
        "tt.extern_elementwise",
        given="the exponent is 1, -1, 2, 3, ½, -½ or 1½",
        reason="these are at most 1.5 ulp off; longer products are further from the power than `pow` is",
    ),
)
