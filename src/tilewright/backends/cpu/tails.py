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
from tilewright.backends.cpu.affine import compares_as_one, extends_as_one, interval_of
from tilewright.backends.cpu.alignment import Tags, operand_tags
from tilewright.backends.cpu.costs import inputs
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.arith import CompareIntegers, Constant, IntegerCast, Select
from tilewright.dialects.cpu import Accumulate, Read
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat, Trans
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import i1

_MOVES = (Broadcast, ExpandDims, Splat, Trans)
"""Ops whose lanes are those of their operand."""


class Bound(NamedTuple):
    """A mask that is on up to some lane, which is known in front of the loop; `tags` say by which axes it is asked."""

    mask: Value
    tags: Tags


class Tail(NamedTuple):
    """The numbers of a value in the lanes that no bound is above of; without bounds, in all lanes."""

    numbers: Numbers
    bounds: tuple[Bound, ...] = ()


class Tails:
    """The tails of the values in the loops of one `phase` of `nest`; None for what differs from lane to lane."""

    def __init__(self, nest: Nest, phase: int) -> None:
        self.nest, self.phase, self.lane = nest, phase, len(nest.outer)
        self._found: dict[Bound, Tail | None] = {}
        self._steps: dict[Bound, int | None] = {}

    def of(self, value: Value, tags: Tags) -> Tail | None:
        """The tail of `value`, asked for by `tags`, beyond the masks that it is loaded under."""
        op = value.op
        if isinstance(op, Constant):
            return Tail(numbers_of_constant(op.value)) if isinstance(op.value, Number) else None
        if op is None or op.block is not self.nest.body or self.lane not in tags:
            return Tail(None)
        key = Bound(value, tags)
        if key not in self._found:
            self._found[key] = self._computed(op, key)
        return self._found[key]

    def is_off(self, mask: Value | None, tags: Tags) -> Tail | None:
        """The tail of a mask that is off beyond some bounds."""
        tail = None if mask is None else self.of(mask, tags)
        return tail if tail is not None and tail.numbers == ZERO and tail.bounds else None

    def _computed(self, op: Op, key: Bound) -> Tail | None:
        if isinstance(op, Load):
            return self._load(op, key.tags)
        if isinstance(op, Select):
            return self._select(op, key.tags)
        if isinstance(op, _MOVES):
            return self.of(*operand_tags(op, key.tags)[0])
        return self._elementwise(op, key) if op.definition.elementwise and is_elementwise(op) else None

    def _elementwise(self, op: Op, key: Bound) -> Tail | None:
        if self._is_prefix(*key) and self._is_ready(op):
            return Tail(ZERO, (key,))
        tails = [self.of(operand, key.tags) for operand in op.operands]
        off = [tail for tail in tails if tail is not None and tail.numbers == ZERO]
        if op.name == "arith.andi" and off:
            return min(off, key=lambda tail: len(tail.bounds))
        return _joined(op, tails)

    def _load(self, op: Load, tags: Tags) -> Tail | None:
        off = self.is_off(op.mask, tags)
        other = self.of(op.other, tags) if op.other is not None else Tail(numbers_of_zero(op.result.type.scalar))
        return None if off is None or other is None else Tail(other.numbers, _union(off, other))

    def _select(self, op: Select, tags: Tags) -> Tail | None:
        """A selection whose condition is known beyond its bounds needs one side only."""
        condition = self.of(op.condition, tags)
        if condition is None or condition.numbers is None or len(condition.numbers) > 1:
            return _joined(op, [condition, self.of(op.chosen, tags), self.of(op.other, tags)])
        side = self.of(op.other if condition.numbers == ZERO else op.chosen, tags)
        return None if side is None else Tail(side.numbers, _union(condition, side))

    def _is_ready(self, op: Op) -> bool:
        """Whether the operands of `op` are known in front of the loops of the phase."""
        stack, seen = [op], set[Op]()
        while stack:
            maker = stack.pop()
            if maker in seen or maker.block is not self.nest.body:
                continue
            seen.add(maker)
            if isinstance(maker, Reduce) and self.nest.phases[maker] < self.phase:
                continue
            if isinstance(maker, Accumulate | Reduce | Read):
                return False
            stack += [value.op for value in inputs(maker) if value.op is not None]
        return True

    def _is_prefix(self, mask: Value, tags: Tags) -> bool:
        """Whether a mask is on up to some lane, and off from there on."""
        op = mask.op
        if isinstance(op, _MOVES):
            return self._is_prefix(*operand_tags(op, tags)[0])
        if isinstance(op, CompareIntegers):
            counted, bound = (op.lhs, op.rhs) if op.predicate in _BELOW else (op.rhs, op.lhs)
            return op.predicate in _BELOW | _ABOVE and self._counts(counted, tags, op) and self._step(bound, tags) == 0
        if op is None or op.name != "arith.andi" or mask.type.scalar is not i1:
            return False
        varying = [value for value in op.operands if self._step(value, tags) != 0]
        return bool(varying) and all(self._is_prefix(value, tags) for value in varying)

    def _counts(self, value: Value, tags: Tags, comparison: CompareIntegers) -> bool:
        """Whether `value` is some number plus the lane, as far as the comparison can tell."""
        if self._step(value, tags) != 1 or not compares_as_one(value):
            return False
        interval = interval_of(value)
        is_natural = interval is not None and interval[0] >= 0 and value.type.scalar.bits < 64
        return comparison.predicate[0] == "s" or is_natural

    def _step(self, value: Value, tags: Tags) -> int | None:
        """How much more integers are in the next lane; None where that differs, or is not known."""
        op = value.op
        if self.lane not in tags or op is None or (isinstance(op, Constant) and isinstance(op.value, Number)):
            return 0
        key = Bound(value, tags)
        if key not in self._steps:
            self._steps[key] = self._new_step(op, tags)
        return self._steps[key]

    def _new_step(self, op: Op, tags: Tags) -> int | None:
        if isinstance(op, MakeRange):
            return 1
        if not isinstance(op, (*_MOVES, Load)) and not op.definition.elementwise:
            return None
        steps = [self._step(*operand) for operand in operand_tags(op, tags)]
        return steps[0] if isinstance(op, _MOVES) else _stepped(op, *steps) if any(steps) or None in steps else 0


_BELOW = frozenset(("slt", "sle", "ult", "ule"))
_ABOVE = frozenset(("sgt", "sge", "ugt", "uge"))


def _stepped(op: Op, *steps: int | None) -> int | None:
    """The step of the result of an op on integers with such steps."""
    first, *rest = steps
    if first is None or None in rest:
        return None
    if op.name in ("arith.addi", "arith.subi"):
        (second,) = rest
        return first + second if op.name == "arith.addi" else first - second
    return first if isinstance(op, IntegerCast) and _casts_as_one(op) else None


def _casts_as_one(op: IntegerCast) -> bool:
    source, target = op.operand.type.scalar, op.result.type.scalar
    signed = op.name not in ("arith.extui", "arith.index_castui")
    return i1 not in (source, target) and (source.bits >= target.bits or extends_as_one(op.operand, signed=signed))


def _joined(op: Op, tails: list[Tail | None]) -> Tail | None:
    """The tail of an elementwise op."""
    known = [tail for tail in tails if tail is not None]
    if len(known) < len(tails):
        return None
    return Tail(numbers_of_result(op, [tail.numbers for tail in known]), _union(*known))


def _union(*tails: Tail) -> tuple[Bound, ...]:
    return tuple(dict.fromkeys(bound for tail in tails for bound in tail.bounds))
