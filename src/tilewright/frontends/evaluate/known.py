"""Constants seen through: what ops on constants compute, where a constant is needed.

    B = 4; tl.arange(0, B * 2)        %c4 = arith.constant 4; %8 = arith.muli %c4, %c2        8

For functions whose reader cannot see that the program says `B: tl.constexpr = 4`: bytecode without source.
"""

from __future__ import annotations

from tilewright.dialects.arith import Constant
from tilewright.dialects.arithmetic_semantics import is_defined
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.ir.attributes import Number
from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.types import i1


class SeeingBuilder(Builder):
    """A builder that knows the values of scalars that are computed from constants alone."""

    def concrete(self, value: Value) -> int | float | bool | None:
        """The value of such a scalar; None for everything else."""
        known = _number(value)
        return bool(known) if known is not None and value.type is i1 else known


def _number(value: Value) -> int | float | None:
    op = value.op
    if op is None:
        return None
    if isinstance(op, Constant):
        number = op.value
        return number.value if isinstance(number, Number) else None
    if op.definition.semantics is None or not op.operands or op.regions:
        return None
    numbers = [_number(operand) for operand in op.operands]
    if None in numbers:
        return None
    arrays = [numpy_dtype(operand.type).type(n) for operand, n in zip(op.operands, numbers, strict=True)]
    if not is_defined(op, *arrays):
        return None
    found: int | float = op.definition.semantics(op, *arrays).item()
    return found
