"""Values beyond the masks of a row that are the same in all lanes.

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
from tilewright.backends.cpu.affine import counts
from tilewright.backends.cpu.alignment import Tags, operand_tags
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.cpu.strides import Known, Step, steps_along
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.arith import CompareIntegers, Constant, Select
from tilewright.dialects.cpu import Accumulate, Read
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat, Trans
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value

_MOVES = (Broadcast, ExpandDims, Splat, Trans)
"""Ops whose lanes are those of their operand."""
_COUNTED = {"slt": 1, "sle": 1, "ult": 1, "ule": 1, "sgt": -1, "sge": -1, "ugt": -1, "uge": -1}
"""Comparisons that say how far a range goes: 1 where the range is the first operand, -1 where it is the second one."""


class Bound(NamedTuple):
    """A mask that is on up to some lane, which is known before the loop; `tags` are the axes of the asked."""

    mask: Value
    tags: Tags


class Tail(NamedTuple):
    """The numbers of a value in the lanes that no bound is above of; without bounds, in all lanes."""

    numbers: Numbers
    bounds: tuple[Bound, ...] = ()


class Tails:
    """The tails of the values in the loops of one `phase` of `nest`; None for what differs from lane to lane.

    Lanes are along the last axis of the nest, or along another `axis`.
    """

    def __init__(self, nest: Nest, phase: int, axis: int | None = None) -> None:
        self.nest, self.phase, self.lane = nest, phase, len(nest.outer) if axis is None else axis
        self._found: dict[Bound, Tail | None] = {}
        self._prefixes: dict[Bound, bool] = {}
        self._steps: Known = {}

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
        """Whether what `op` is computed from is known before the loops of the phase."""
        makers, phases = self.nest.closure(op), self.nest.phases
        return all(phases[maker] < self.phase for maker in makers if isinstance(maker, Reduce)) and not any(
            isinstance(maker, (Accumulate, Read)) for maker in makers
        )

    def _is_prefix(self, mask: Value, tags: Tags) -> bool:
        """Whether a mask is on up to some lane, and off from there on."""
        key = Bound(mask, tags)
        if key not in self._prefixes:
            self._prefixes[key] = self._goes_up_to_a_lane(mask.op, tags)
        return self._prefixes[key]

    def _goes_up_to_a_lane(self, op: Op | None, tags: Tags) -> bool:
        if isinstance(op, _MOVES):
            return self._is_prefix(*operand_tags(op, tags)[0])
        if isinstance(op, CompareIntegers) and op.predicate in _COUNTED:
            counted, bound = op.operands[:: _COUNTED[op.predicate]]
            signed = op.predicate[0] == "s"
            return self._step(counted, tags) == 1 and counts(counted, signed=signed) and self._step(bound, tags) == 0
        if op is None or op.name != "arith.andi":
            return False
        varying = [value for value in op.operands if self._step(value, tags) != 0]
        return bool(varying) and all(self._is_prefix(value, tags) for value in varying)

    def _step(self, value: Value, tags: Tags) -> Step:
        """How much more integers are in the next lane."""
        if isinstance(value.op, _MOVES):
            return self._step(*operand_tags(value.op, tags)[0])
        return steps_along(value, self._steps).get(tags.index(self.lane), 0) if self.lane in tags else 0


def _joined(op: Op, tails: list[Tail | None]) -> Tail | None:
    """The tail of an elementwise op."""
    known = [tail for tail in tails if tail is not None]
    if len(known) < len(tails):
        return None
    return Tail(numbers_of_result(op, [tail.numbers for tail in known]), _union(*known))


def _union(*tails: Tail) -> tuple[Bound, ...]:
    return tuple(dict.fromkeys(bound for tail in tails for bound in tail.bounds))
