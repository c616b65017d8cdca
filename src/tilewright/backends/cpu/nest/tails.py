"""Values beyond the masks of a row: the same number in all lanes.

x = load(p + lane, lane < n, -inf)      -inf in lanes from n on
e = exp(x - m)                          0 or NaN there, since m is one number for the row
e * lane                                depends on the lane everywhere
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.possible_numbers import (
    ZERO,
    Numbers,
    numbers_of_constant,
    numbers_of_result,
    numbers_of_zero,
)
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import ActiveLaneBound, Index, Uniform
from tilewright.backends.cpu.nest.moves import moved_index
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.arith import CompareIntegers, Constant, Select
from tilewright.dialects.cpu import Accumulate, Read
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value


class Tail(NamedTuple):
    """The numbers of a value in the lanes that no bound is above of; without bounds, in all lanes."""

    numbers: Numbers
    bounds: tuple[ActiveLaneBound, ...] = ()


class Tails:
    """The tails of the values of `nest`; None for what differs from lane to lane everywhere."""

    def __init__(self, c: Context, nest: Nest) -> None:
        self.c, self.nest = c, nest
        self._found: dict[tuple[Value, Index], Tail | None] = {}
        self._waits = False

    def renew(self) -> None:
        """Ask again what reductions were missing for, in front of the next loop."""
        if self._waits:
            self._found.clear()
        self._waits = False

    def of(self, value: Value, index: Index) -> Tail | None:
        """The tail of `value` at `index` beyond the masks that it is loaded under."""
        op = value.op
        if isinstance(op, Constant):
            return Tail(numbers_of_constant(op.value)) if isinstance(op.value, Number) else None
        if op is None or op.block is not self.nest.body or all(isinstance(lane, Uniform) for lane in index):
            return Tail(None)
        key = (value, index)
        if key not in self._found:
            self._found[key] = self._computed(op, value, index)
        return self._found[key]

    def is_off(self, mask: Value | None, index: Index) -> Tail | None:
        """The tail of a mask that is off beyond some bounds."""
        tail = None if mask is None else self.of(mask, index)
        return tail if tail is not None and tail.numbers == ZERO and tail.bounds else None

    def _computed(self, op: Op, value: Value, index: Index) -> Tail | None:
        if isinstance(op, Load):
            return self._load(op, index)
        if isinstance(op, Select):
            return self._select(op, index)
        moved = moved_index(op, index)
        if moved is not None:
            return self.of(*moved)
        return self._elementwise(op, value, index) if op.definition.elementwise and is_elementwise(op) else None

    def _elementwise(self, op: Op, value: Value, index: Index) -> Tail | None:
        tails = [self.of(operand, index) for operand in op.operands]
        if isinstance(op, CompareIntegers) and None in tails:
            return self._compared(op, tails, index)
        if op.name == "arith.andi" and any(tail is not None and tail.numbers == ZERO for tail in tails):
            return self._both(value, tails, index)
        return _joined(op, tails)

    def _load(self, op: Load, index: Index) -> Tail | None:
        off = self.is_off(op.mask, index)
        other = None if off is None else self._other(op, index)
        return None if off is None or other is None else Tail(other.numbers, _union(off, other))

    def _other(self, op: Load, index: Index) -> Tail | None:
        return self.of(op.other, index) if op.other is not None else Tail(numbers_of_zero(op.result.type.scalar))

    def _select(self, op: Select, index: Index) -> Tail | None:
        """A selection whose condition is known beyond its bounds needs one side only."""
        condition = self.of(op.condition, index)
        if condition is None or condition.numbers is None or len(condition.numbers) > 1:
            return _joined(op, [condition, self.of(op.chosen, index), self.of(op.other, index)])
        side = self.of(op.other if condition.numbers == ZERO else op.chosen, index)
        return None if side is None else Tail(side.numbers, _union(condition, side))

    def _compared(self, op: CompareIntegers, tails: list[Tail | None], index: Index) -> Tail | None:
        """A comparison of a range with one number may be a mask that ends early."""
        differs = [operand for operand, tail in zip(op.operands, tails, strict=True) if tail is None]
        others = [tail for tail in tails if tail is not None]
        if len(differs) > 1 or any(tail.bounds for tail in others) or not self._is_ready(op, differs[0]):
            return None
        bound = self._bound(op.result, index)
        return None if bound is None else Tail(ZERO, (bound,))

    def _both(self, mask: Value, tails: list[Tail | None], index: Index) -> Tail | None:
        """A conjunction is off where one side is, from the lesser of two bounds on."""
        off = [tail for tail in tails if tail is not None and tail.numbers == ZERO]
        plain = all(tail in off or (tail is not None and not tail.bounds) for tail in tails)
        bound = self._bound(mask, index) if plain and self._is_ready(mask.op, None) else None
        return min(off, key=lambda tail: len(tail.bounds)) if bound is None else Tail(ZERO, (bound,))

    def _is_ready(self, op: Op | None, counted: Value | None) -> bool:
        """Whether `op` can be computed now, in front of the loop, without memory for the operand that is `counted`.

        What is computed early for a later phase needs no reduction that comes first, and no buffer that is yet written.
        """
        stack = [(value, value is counted) for value in (op.operands if op is not None else ())]
        seen = set(stack)
        while stack:
            value, inside = stack.pop()
            maker = value.op
            if maker is None or maker.block is not self.nest.body or value in self.c.reduced:
                continue
            if isinstance(maker, Accumulate | Reduce | Read) or (inside and isinstance(maker, Load)):
                self._waits |= isinstance(maker, Reduce)
                return False
            new = {(operand, inside) for operand in maker.operands} - seen
            stack += new
            seen |= new
        return True

    def _bound(self, mask: Value, index: Index) -> ActiveLaneBound | None:
        """The bound of a mask, if it has one that is known in front of the loop; nothing is built in the loop."""
        c, unused = self.c, Block()
        c.position = 0
        with c.b.into(unused):
            lane = evaluate(c, mask, index)
        c.forget(c.depth)
        for op in reversed(list(unused)):
            op.erase()
        return lane if isinstance(lane, ActiveLaneBound) and lane.level < c.depth else None


def _joined(op: Op, tails: list[Tail | None]) -> Tail | None:
    """The tail of an elementwise op."""
    known = [tail for tail in tails if tail is not None]
    if len(known) < len(tails):
        return None
    return Tail(numbers_of_result(op, [tail.numbers for tail in known]), _union(*known))


def _union(*tails: Tail) -> tuple[ActiveLaneBound, ...]:
    return tuple(dict.fromkeys(bound for tail in tails for bound in tail.bounds))
