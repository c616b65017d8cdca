"""Conditions of `analysis/guard_conditions.py` as scalar ops before a loop nest.

y - x - 256 >= 0 or x - y - 256 >= 0       %x1 = tt.ptr_to_int %x ; %y1 = tt.ptr_to_int %y
                                           %a = arith.cmpi slt, %y1, %x1 + 256 ; %b = arith.cmpi slt, %x1, %y1 + 256
fails where                                arith.andi %a, %b
"""

from __future__ import annotations

from typing import TypeAlias

from tilewright.analysis.guard_conditions import Comparison, Condition, Extreme, Part, Remainder, Scaled, Sum
from tilewright.analysis.integer_forms import Monomial, Symbol
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import IndexType, PointerType, Type, i1, i64
from tilewright.transforms.op_builder import OpBuilder

Known: TypeAlias = dict[tuple[object, ...], Value]
Term: TypeAlias = tuple[int, "Monomial | Part"]
"""A factor, and what it is multiplied with."""

FAILS = {">=": "slt", "==": "ne"}


class GuardOps:
    """Writes conditions before the op `before`; `known` holds what its block has already, each op once."""

    def __init__(self, before: Op, known: Known) -> None:
        self.before = before
        self.known = known

    def fails(self, condition: Condition) -> Value:
        """Whether the condition does not hold, an i1."""
        if isinstance(condition, Comparison):
            above, below = self._sides(condition.sum)
            fails = Keyword(FAILS[condition.relation])
            return self._op("arith.cmpi", self._total(above), self._total(below), type=i1, predicate=fails)
        is_every = condition.word == "and"
        failing = list(dict.fromkeys(map(self.fails, condition.of)))
        return self._joined("arith.ori" if is_every else "arith.andi", failing, not is_every, i1)

    def value(self, sum: Sum) -> Value:
        """The sum, an i64."""
        above, below = self._sides(sum)
        value = self._total(above)
        return self._op("arith.subi", value, self._total(below)) if below else value

    def _sides(self, sum: Sum) -> tuple[list[Term], list[Term]]:
        """Two lists of terms whose difference the sum is, all with positive factors."""
        sides: tuple[list[Term], list[Term]] = ([], [])
        for monomial in sorted(sum.terms):
            factor = sum.terms[monomial]
            sides[factor < 0].append((abs(factor), monomial))
        for factor, part in sum.parts:
            sides[factor < 0].append((abs(factor), part))
        return sides

    def _total(self, terms: list[Term]) -> Value:
        return self._joined("arith.addi", [self._times(*term) for term in terms], 0)

    def _times(self, factor: int, part: Monomial | Part) -> Value:
        if not part:
            return self._constant(factor)
        if isinstance(part, Extreme):
            a, b = part.among
            value = self._op("arith.minsi" if part.sign < 0 else "arith.maxsi", self.value(a), self.value(b))
        elif isinstance(part, Remainder):
            value = self._remainder(self.value(part.of), part.divisor)
        else:
            factors = map(self.value, part) if isinstance(part, Scaled) else map(self._symbol, part)
            value = self._joined("arith.muli", list(factors), 1)
        return value if factor == 1 else self._op("arith.muli", value, self._constant(factor))

    def _remainder(self, value: Value, divisor: int) -> Value:
        """That of a division which rounds towards minus infinity."""
        if not divisor & (divisor - 1):
            return self._op("arith.andi", value, self._constant(divisor - 1))
        rest = self._op("arith.remsi", value, self._constant(divisor))
        below_zero = self._op("arith.shrsi", rest, self._constant(63))
        return self._op("arith.addi", rest, self._op("arith.andi", below_zero, self._constant(divisor)))

    def _joined(self, name: str, values: list[Value], empty: int, type: Type = i64) -> Value:
        """All of the values by one op after the other, from the first on; `empty` if there is none."""
        if not values:
            return self._constant(empty, type)
        found, *others = values
        for value in others:
            found = self._op(name, found, value, type=type)
        return found

    def _symbol(self, symbol: Symbol) -> Value:
        value = symbol.source
        if value.type is i64:
            return value
        is_index, is_pointer = (isinstance(value.type, kind) for kind in (IndexType, PointerType))
        return self._op("tt.ptr_to_int" if is_pointer else "arith.index_cast" if is_index else "arith.extsi", value)

    def _constant(self, number: int, type: Type = i64) -> Value:
        return self._op("arith.constant", type=type, value=Number(number, type))

    def _op(self, name: str, *operands: Value, type: Type = i64, **attributes: Attribute) -> Value:
        key = name, operands, *attributes.values()
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = OpBuilder(self.before).emit(name, operands, type, attributes)
        return found
