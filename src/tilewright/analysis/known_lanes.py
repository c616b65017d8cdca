"""Lanes of a tile that are known where a mask has few active lanes: inactive ones have the value of `other`.

    %m = %range < %n                    no lane from `most` on, if %n <= most
    %x = tt.load %p, %m, %inf           inf from there on
    %y = tt.gather %x[%range ^ d]       known where its partner is
    %c = arith.cmpf olt, %x, %y         false where %x is inf, whatever %y is

So the lanes that were not loaded stay known through a sorting network, as long as ordered elements keep their
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.analysis.gather_distance import distance_of_indices
from tilewright.dialects.arith import Binary, Compare, Constant, Select
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Gather, Splat
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.types import FloatType, IntType, Type
from tilewright.support.exact_rounding import Array

GREATER = {"ogt": True, "olt": False, "sgt": True, "slt": False, "ugt": True, "ult": False}
"""For each strict predicate whether the first operand is the greater one."""


class Lanes(NamedTuple):
    """The numbers of a tile, each with whether it is known; what is not has any number there."""

    numbers: Array
    known: Array

    def number_below(self, end: int) -> int | float | None:
        """The number that all lanes below `end` have; None if that is not known. Zeros have a sign, NaN bits."""
        numbers, known = self.numbers[:end], self.known[:end]
        number = numbers[0].item()
        is_plain = number != 0 or not isinstance(number, float)
        return number if known.all() and is_plain and (numbers == number).all() else None


class KnownLanes:
    """The known lanes of tiles of `extent` lanes if `bound` <= `most`; ops are visited in program order."""

    def __init__(self, extent: int, bound: Value, most: int) -> None:
        self.extent, self.bound, self.most = extent, bound, most
        self._found: dict[Value, Lanes] = {}

    def of(self, value: Value) -> Lanes:
        """The known lanes of a tile, or of a number that stands in each lane."""
        found = self._found.get(value)
        return self.unknown(value.type) if found is None else found

    def visit(self, op: Op) -> None:
        """Find out what is known of the result of `op`."""
        rule = RULES.get(op.name)
        lanes = None if rule is None else rule(self, op)
        if lanes is not None:
            self._found[op.result] = lanes

    def unknown(self, type: Type) -> Lanes:
        """Lanes of a type of which nothing is known."""
        return Lanes(np.zeros(self.extent, numpy_dtype(type)), np.zeros(self.extent, np.bool_))

    def all_known(self, numbers: Any, type: Type) -> Lanes:
        """Lanes that are known."""
        whole = np.broadcast_to(np.asarray(numbers, numpy_dtype(type)), self.extent)
        return Lanes(whole, np.ones(self.extent, np.bool_))


def _constant(lanes: KnownLanes, op: Constant) -> Lanes | None:
    return lanes.all_known(op.value.value, op.result.type) if isinstance(op.value, Number) else None


def _range(lanes: KnownLanes, op: MakeRange) -> Lanes:
    return lanes.all_known(np.arange(op.start, op.end), op.result.type)


def _compared(lanes: KnownLanes, op: Compare) -> Lanes:
    """A comparison does not hold if it does not even for the most favourable numbers in place of those unknown."""
    sides = [lanes.of(value) for value in op.operands]
    numbers = [side.numbers for side in sides]
    whole = sides[0].known & sides[1].known
    best = _most_favourable(op)
    if best is not None:
        numbers = [np.where(side.known, side.numbers, extreme) for side, extreme in zip(sides, best, strict=True)]
    found = _computed(op, numbers)
    known = whole if best is None else whole | ~found
    splat = defining(op.rhs, Splat)
    if op.predicate == "slt" and splat is not None and splat.source is lanes.bound:
        off = sides[0].known & (sides[0].numbers >= lanes.most)
        return Lanes(found & ~off, known | off)
    return Lanes(found, known)


def _most_favourable(op: Compare) -> list[Array] | None:
    """The numbers of its operands for which a strict comparison holds if it does for any; None for others."""
    element, is_greater = op.lhs.type.scalar, GREATER.get(op.predicate)
    if is_greater is None:
        return None
    if isinstance(element, FloatType) and element.bits >= 16 and op.predicate.startswith("o"):  # others hold of NaN
        ends: Sequence[int | float] = (-np.inf, np.inf)
    elif isinstance(element, IntType) and element.bits > 1:
        top = 1 << (element.bits - 1)
        ends = (0, -1) if op.predicate.startswith("u") else (-top, top - 1)
    else:
        return None
    return [np.asarray(end, numpy_dtype(element)) for end in (reversed(ends) if is_greater else ends)]


def _and(lanes: KnownLanes, op: Binary) -> Lanes:
    """Where a side is zero, so is the result."""
    a, b = lanes.of(op.lhs), lanes.of(op.rhs)
    found = _computed(op, [a.numbers, b.numbers])
    return Lanes(found, (a.known & b.known) | (a.known & (a.numbers == 0)) | (b.known & (b.numbers == 0)))


def _exclusive(lanes: KnownLanes, op: Binary) -> Lanes:
    a, b = lanes.of(op.lhs), lanes.of(op.rhs)
    return Lanes(_computed(op, [a.numbers, b.numbers]), a.known & b.known)


def _computed(op: Op, numbers: Sequence[Array]) -> Array:
    semantics = op.definition.semantics
    assert semantics is not None, f"{op.name} has a meaning"
    return np.asarray(semantics(op, *numbers))


def _chosen(condition: Lanes, chosen: Lanes, other: Lanes) -> Lanes:
    """Where the condition is not known, both sides may be equal; zeros are not, which have a sign."""
    on = condition.numbers.astype(np.bool_)
    decided = condition.known & np.where(on, chosen.known, other.known)
    same = chosen.known & other.known & (chosen.numbers == other.numbers) & (chosen.numbers != 0)
    return Lanes(np.where(on, chosen.numbers, other.numbers), decided | same)


def _selected(lanes: KnownLanes, op: Select) -> Lanes:
    return _chosen(*(lanes.of(value) for value in op.operands))


def _loaded(lanes: KnownLanes, op: Load) -> Lanes | None:
    if op.mask is None or op.other is None:
        return None
    return _chosen(lanes.of(op.mask), lanes.unknown(op.result.type), lanes.of(op.other))


def _gathered(lanes: KnownLanes, op: Gather) -> Lanes | None:
    distance = distance_of_indices(op)
    if distance is None:
        return None
    source, partners = lanes.of(op.source), np.arange(lanes.extent) ^ distance
    return Lanes(source.numbers[partners], source.known[partners])


RULES: dict[str, Callable[[KnownLanes, Any], Lanes | None]] = {
    "arith.andi": _and,
    "arith.cmpf": _compared,
    "arith.cmpi": _compared,
    "arith.constant": _constant,
    "arith.select": _selected,
    "arith.xori": _exclusive,
    "tt.gather": _gathered,
    "tt.load": _loaded,
    "tt.make_range": _range,
    "tt.splat": lambda lanes, op: lanes.of(op.source),
}
