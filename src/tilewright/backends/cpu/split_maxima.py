"""A NaN-propagating maximum becomes one maximum instruction and a selection.

    %more = arith.cmpf ogt, %x, %y                     %more = arith.cmpf ogt, %x, %y
    %nan = arith.cmpf une, %x, %x               →      %nan = arith.cmpf une, %x, %x
    %first = arith.ori %more, %nan                     %max = arith.select %more, %x, %y
    %r = arith.select %first, %x, %y                   %r = arith.select %nan, %x, %max

torch's kernels write maxima and minima in the first form. A selection by the comparison of its own operands is `maxps`
on x86, which returns the second operand if both are equal or one is NaN, as the selection does. Then no masks are
combined, and whether `%x` is NaN is known as soon as the maximum is.
"""

from __future__ import annotations

from tilewright.dialects.arith import Bitwise, Compare, Select
from tilewright.ir.core import Op, Value, defining
from tilewright.transforms.functions import functions_of
from tilewright.transforms.op_builder import OpBuilder

EXTREMES = ("ogt", "olt")
"""The predicates of choices that are one instruction."""


def split_maxima(module: Op) -> bool:
    """Expand NaN-propagating maxima and minima of `module` into two selections; returns whether there were any."""
    choices = [op for function in functions_of(module) for op in function.ops_of(Select)]
    return sum(map(_split, choices)) > 0


def _split(op: Select) -> bool:
    """Choose twice in place of `op` if it is such a maximum or minimum; whether it is."""
    either = defining(op.condition, Bitwise)
    if either is None or either.name != "arith.ori" or len(either.result.uses) > 1:
        return False
    for more, nan in (either.operands, either.operands[::-1]):
        if _chooses(more, op.chosen, op.other) and _is_nan(nan, op.chosen):
            at, type = OpBuilder(op), op.result.type
            extreme = at.emit("arith.select", (more, op.chosen, op.other), type)
            op.replace([at.emit("arith.select", (nan, op.chosen, extreme), type)])
            either.erase()
            return True
    return False


def _chooses(condition: Value, x: Value, y: Value) -> bool:
    """Whether `condition` compares the floats `x` and `y`, in this order."""
    op = _comparison(condition)
    return op is not None and op.predicate in EXTREMES and op.lhs is x and op.rhs is y


def _is_nan(condition: Value, x: Value) -> bool:
    """Whether `condition` says that `x` is NaN."""
    op = _comparison(condition)
    return op is not None and op.predicate in ("une", "uno") and op.lhs is x and op.rhs is x


def _comparison(condition: Value) -> Compare | None:
    """The comparison of floats that `condition` is, or None."""
    op = defining(condition, Compare)
    return op if op is not None and op.name == "arith.cmpf" else None
