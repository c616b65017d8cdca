"""Value numbering: an op that computes the same as an earlier op gets that op's value.

    %a = arith.addi %x, %y                     %v1 = add i32 %x, %y
    %b = arith.addi %x, %y          →          (no line: %b is %v1)
    %c = arith.muli %b, %z                     %v2 = mul i32 %v1, %z

Passes build loops piece by piece, so code that two pieces need is generated twice, such as the masks of rows that are
computed side by side. LLVM would find these duplicates, too, but each line costs it as much time as dozens of look-ups
here.

A value is known up to the next loop or branch only. When values were also known inside nested regions, they lived
longer than there are registers: a product then had 7 % fewer lines, but took LLVM 5 % longer.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from tilewright.backends.llvm.spelling import is_kept
from tilewright.dialects.vector import PLACELESS
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect, OpDefinition

Number: TypeAlias = tuple[object, ...]
"""All that the result of an op depends on."""


class ValueNumbering:
    """The values since the last loop or branch, by what they are computed from."""

    def __init__(self) -> None:
        self._first: dict[Number, Value] = {}
        self._same: dict[Value, Value] = {}

    def forget(self) -> None:
        """A block begins or ends: what was computed in front of it is not known inside, nor the other way round."""
        self._first.clear()
        self._same.clear()

    def known(self, op: Op) -> Value | None:
        """The value that the result of `op` is equal to, if an op before it has one; otherwise `op` is remembered."""
        results = op.results
        if len(results) != 1 or not _is_pure(op.definition) or is_kept(results[0].type):
            return None
        (result,), same, operands = results, self._same, op.operands
        if same:  # hardly ever
            operands = [same.get(value, value) for value in operands]
        number: Number = (op.name, result.type, *operands)
        if op.attributes:
            number = (*number, *op.attributes.items())
        found = self._first.setdefault(number, result)
        if found is result:
            return None
        same[result] = found
        return found


@cache
def _is_pure(definition: OpDefinition) -> bool:
    """Whether the results of ops of a kind depend on nothing but operands and attributes."""
    depends = definition.effect is not Effect.NONE or definition.effect_of is not None or definition.regions != 0
    return not depends and not definition.terminator and definition.name not in PLACELESS
