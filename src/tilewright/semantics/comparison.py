"""Comparisons and selection.

offsets < n          arith.cmpi slt  (ult for unsigned, olt for floats)
where(c, x, y)       arith.select
"""

from __future__ import annotations

import warnings
from typing import Any

from tilewright.ir.attributes import Keyword
from tilewright.semantics.arithmetic import common_operands, is_pointer, to_bool, to_tensor
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.errors import NoCommonType
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import int1
from tilewright.support.diagnostics import SemanticError

# relation: predicate of floats, of signed, of unsigned integers
PREDICATES = {
    "==": (Keyword("oeq"), Keyword("eq"), Keyword("eq")),
    "!=": (Keyword("une"), Keyword("ne"), Keyword("ne")),
    "<": (Keyword("olt"), Keyword("slt"), Keyword("ult")),
    "<=": (Keyword("ole"), Keyword("sle"), Keyword("ule")),
    ">": (Keyword("ogt"), Keyword("sgt"), Keyword("ugt")),
    ">=": (Keyword("oge"), Keyword("sge"), Keyword("uge")),
}


def compare(relation: str, lhs: Any, rhs: Any) -> Tile:
    """`lhs relation rhs` per element; every comparison with NaN but `!=` is false."""
    a, b = common_operands(lhs, rhs, operation=relation)
    kind = a.type.scalar
    of_floats, signed, unsigned = PREDICATES[relation]
    result = a.type.with_element_ty(int1)
    if kind.floating:
        return build("arith.cmpf", [a.handle, b.handle], result, {"predicate": of_floats})
    return build("arith.cmpi", [a.handle, b.handle], result, {"predicate": signed if kind.signed else unsigned})


def where(condition: Any, x: Any, y: Any) -> Tile:
    """`x` where `condition` holds, else `y`; all three broadcast."""
    asked = to_tensor(condition)
    if asked.type.scalar is not int1:
        warnings.warn(
            f"tl.where with a condition of {asked.type.scalar} instead of booleans is deprecated", stacklevel=3
        )
    choice = to_bool(asked)
    if is_pointer(x) or is_pointer(y) or _are_fp8e4b15(x, y):
        first, second = to_tensor(x), to_tensor(y)
        if first.type.scalar is not second.type.scalar:
            raise SemanticError(NoCommonType(first.type, second.type))
        first, second = broadcast(first, second)
    else:
        first, second = common_operands(x, y, operation="where")
    if choice.type.shape:
        choice, first = broadcast(choice, first)
        first, second = broadcast(first, second)
    return build("arith.select", [choice.handle, first.handle, second.handle], first.type)


def _are_fp8e4b15(x: Any, y: Any) -> bool:
    """Whether both have this type, which is not one to compute in."""
    return all(isinstance(side, Tile) and side.type.scalar.is_fp8e4b15() for side in (x, y))
