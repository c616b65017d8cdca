"""Selections and masks are decided by the conditions around them.

    %in = arith.cmpi sge, %x, %c67                      %in = arith.cmpi sge, %x, %c67
    %y = arith.addi %x, %c-64                           %v = tt.load %p, %in
    %first = arith.cmpi slt, %y, %c3            →       %r = arith.select %in, %v, %u
    %both = arith.andi %first, %in
    %w = tt.load %q, %both                              (%x - 64 < 3 says that %x < 67: %both is false)
    %t = arith.select %first, %w, %v
    %r = arith.select %in, %t, %u

Slices that are written into each other, as torch does with a border, are nested selections: each repeats the outer
conditions in terms of other integers. Where an outer condition holds, its comparisons with constants are ranges of
integers, which decide inner conditions or do not. The mask of a store is the outermost condition, because masked-off
lanes are not used. `%x + c` has the range of `%x`, shifted, unless it may wrap.

A comparison of a sign-extended integer is one of the integer itself. Facts that a range implies by itself are not used:
torch masks rows of 64 by `arange(0, 64) < 64`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.backends.cpu.costs import conjuncts, is_tile
from tilewright.dialects.arith import CompareIntegers, Select
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_dead, is_pure
from tilewright.ir.types import FloatType, IntType, i1
from tilewright.transforms.arith_rules import NEGATED
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import binary_of, integer_of
from tilewright.transforms.op_builder import OpBuilder


class Range(NamedTuple):
    """The integers from `low` to `high`; none where `high` is less."""

    low: int
    high: int

    def meet(self, other: Range) -> Range:
        """The integers of both."""
        return Range(max(self.low, other.low), min(self.high, other.high))


class Facts(NamedTuple):
    """Conditions and ranges that are known in the live lanes.

    Attributes:
        ranges: the integers that a tile has there.
        truths: what other conditions are there.
    """

    ranges: Mapping[Value, Range]
    truths: Mapping[Value, bool]

    def range_of(self, value: Value) -> Range:
        """The integers that `value` has."""
        base = _narrowest(value)
        found = _all_of(base)
        if base in self.ranges:
            found = found.meet(self.ranges[base])
        op, added = base.op, _added(base)
        if isinstance(op, MakeRange):
            found = found.meet(Range(op.start, op.end - 1))
        elif isinstance(op, (Broadcast, ExpandDims)):
            found = found.meet(self.range_of(op.source))
        elif added is not None:
            (inner, number), all = added, _all_of(base)
            least, most = (bound + number for bound in self.range_of(inner))
            if all.low <= least and most <= all.high:
                found = found.meet(Range(least, most))
        return found

    def with_(self, condition: Value, *, holds: bool) -> Facts:
        """These facts in the lanes where `condition` holds, or does not."""
        parts = list(conjuncts(condition))
        if not holds and len(parts) > 1:
            return self
        ranges, truths = dict(self.ranges), dict(self.truths)
        for part in parts:
            truths[part] = holds
            compared = _compared(part)
            if compared is not None:
                value, predicate, number = compared
                base, said = _narrowest(value), RANGES[predicate if holds else NEGATED[predicate]](number)
                ranges[base] = ranges.get(base, _all_of(base)).meet(said)
        return Facts(ranges, truths)

    def says(self, condition: Value) -> bool | None:
        """Whether `condition` holds, if these facts decide it."""
        parts = list(conjuncts(condition))
        said = [self._says_of(part) for part in parts]
        if all(said):
            return True
        joined = self.with_(condition, holds=True)
        values = [compared[0] for compared in map(_compared, parts) if compared is not None]
        none = any(found.low > found.high for found in map(joined.range_of, values))
        return False if none or False in said else None

    def _says_of(self, part: Value) -> bool | None:
        """Whether a condition that is no conjunction holds, if these facts decide it."""
        if part in self.truths:
            return self.truths[part]
        constant, compared = integer_of(part), _compared(part)
        if constant is not None:
            return bool(constant)
        if compared is None:
            return None
        value, predicate, number = compared
        found, wanted = self.range_of(value), RANGES[predicate](number)
        if wanted.low <= found.low and found.high <= wanted.high:
            return True
        common = found.meet(wanted)
        return False if common.low > common.high else None


ENDLESS = 1 << 64
"""A number that no integer of a kernel reaches."""
RANGES = {
    "slt": lambda number: Range(-ENDLESS, number - 1),
    "sle": lambda number: Range(-ENDLESS, number),
    "sgt": lambda number: Range(number + 1, ENDLESS),
    "sge": lambda number: Range(number, ENDLESS),
}
"""The integers that a comparison with a number leaves, by its predicate."""
NOTHING = Facts({}, {})


def simplify_masks(module: Op) -> bool:
    """Decide selections and masks in `module` by the conditions around them; returns whether any changed."""
    changed = False
    for function in functions_of(module):
        accesses: list[Load | Store] = [*function.ops_of(Load), *function.ops_of(Store)]
        for access in accesses:
            changed |= is_tile(access.pointer) and access.mask is not None and _simplify_access(access, access.mask)
        choices = function.ops_of(Select)
        for store in function.ops_of(Store) if choices else ():
            if is_tile(store.value):
                facts = NOTHING if store.mask is None else NOTHING.with_(store.mask, holds=True)
                changed |= _simplify_operand(store, 1, facts)
        for choice in reversed(choices):
            if choice.operands and is_tile(choice.condition):  # those that are erased have none, in regions, too
                changed |= _simplify_condition(choice)
            changed |= bool(choice.operands) and _simplify_sides(choice)
        for comparison in function.ops_of(CompareIntegers):
            changed |= _compare_narrower(comparison)
    return changed


def _simplify_access(access: Load | Store, mask: Value) -> bool:
    """Take out of a mask what follows from the rest of it; returns whether there was such a part."""
    roots = [_root(compared[0]) for compared in map(_compared, conjuncts(mask)) if compared is not None]
    if len(set(roots)) == len(roots) and not _is_decided(mask):
        return False
    needed = _needed(mask, NOTHING)
    if needed is mask or needed is True or (isinstance(access, Load) and access.is_volatile):
        return False
    if isinstance(needed, Value):
        access.set_operand(access.operands.index(mask), needed)
    elif isinstance(access, Store):
        access.erase()
    else:
        none = access.other
        if none is None:
            if not isinstance(access.result.type.scalar, FloatType | IntType):
                return False
            none = OpBuilder(access).constant(0, access.result.type)
        access.replace([none])
    return True


def _is_decided(condition: Value) -> bool:
    """Whether a part of a condition says the same in all lanes."""
    return any(NOTHING.says(part) is not None for part in conjuncts(condition))


def _simplify_condition(choice: Select) -> bool:
    """Take out of a condition what holds in all lanes; returns whether there was such a part."""
    needed = _needed(choice.condition, NOTHING) if _is_decided(choice.condition) else choice.condition
    if needed is choice.condition:
        return False
    if isinstance(needed, bool):
        choice.replace([choice.chosen if needed else choice.other])
    else:
        choice.set_operand(0, needed)
    return True


def _needed(mask: Value, facts: Facts) -> Value | bool:
    """The part of a mask that must be tested in lanes where `facts` hold; a bool if nothing must."""
    said, op = facts.says(mask), mask.op
    if said is not None:
        return said
    if op is None or not (op.name == "arith.andi" or isinstance(op, Broadcast)):
        return mask
    at = OpBuilder(op)
    if isinstance(op, Broadcast):
        source = _needed(op.source, facts)
        same = source is op.source or isinstance(source, bool)
        return mask if same or isinstance(source, bool) else at.emit("tt.broadcast", (source,), mask.type)
    left, right = op.operands
    first = _needed(left, facts.with_(right, holds=True))
    second = _needed(right, facts if isinstance(first, bool) else facts.with_(first, holds=True))
    if isinstance(first, bool) or isinstance(second, bool):
        return second if first is True else first if second is True else False
    return mask if (first, second) == (left, right) else at.emit("arith.andi", (first, second), mask.type)


def _simplify_sides(choice: Select) -> bool:
    """Decide what is chosen from on either side of a choice; returns whether anything changed."""
    changed = [_simplify_operand(*place) for place in _inner_places(choice, NOTHING)]
    return any(changed)


def _simplify_operand(user: Op, place: int, facts: Facts) -> bool:
    """Let `user` use what is left of the choices in an operand; returns whether any was decided.

    Args:
        user: the op.
        place: the number of the operand.
        facts: what is known of the lanes of `user` that are seen.
    """
    changed, waiting = False, [(user, place, facts)]  # no recursion: tiles may be sums of thousands of terms
    while waiting:
        user, place, facts = waiting.pop()
        value = left = user.operands[place]
        while isinstance(left.op, Select) and (said := facts.says(left.op.condition)) is not None:
            left = left.op.chosen if said else left.op.other
        if left is not value:
            changed = True
            user.set_operand(place, left)
            _erase_unused(value)
        op = left.op
        if op is not None and sum(left.uses.values()) == 1 and not op.regions and is_pure(op):
            waiting += reversed(_inner_places(op, facts))
    return changed


def _inner_places(op: Op, facts: Facts) -> list[tuple[Op, int, Facts]]:
    """The operands of an op in which there may be choices, and what is known of their lanes."""
    if isinstance(op, Select):
        return [(op, 1, facts.with_(op.condition, holds=True)), (op, 2, facts.with_(op.condition, holds=False))]
    if not op.definition.elementwise or not is_tile(op.results[0]):
        return []
    return [(op, number, facts) for number, value in enumerate(op.operands) if is_tile(value)]


def _erase_unused(value: Value) -> None:
    """Erase the op of `value`, and those of its operands, where they are unused now."""
    waiting = [value]
    while waiting:
        op = waiting.pop().op
        if op is not None and op.block is not None and is_dead(op):
            waiting += reversed(op.operands)
            op.erase()


def _compare_narrower(op: CompareIntegers) -> bool:
    """Compare what was widened by its sign as it was; returns whether a comparison does so now."""
    value, number = op.lhs, integer_of(op.rhs)
    base = _narrowest(value)
    if base is value or number is None or op.predicate not in (*RANGES, "eq", "ne") or not is_tile(value):
        return False
    all = _all_of(base)
    if not all.low <= number <= all.high:
        return False
    at = OpBuilder(op)
    op.set_operands((base, at.emit("arith.constant", (), base.type, {"value": Number(number, base.type)})))
    return True


def _compared(condition: Value) -> tuple[Value, str, int] | None:
    """The integer that is compared with a constant, the predicate, and the constant; None: something else.

    A truth value with a sign is 0 or -1, and 1 as a constant: it has no range here.
    """
    op = condition.op
    if not isinstance(op, CompareIntegers) or op.predicate not in RANGES or op.lhs.type.scalar is i1:
        return None
    number = integer_of(op.rhs)
    return None if number is None else (op.lhs, op.predicate, number)


def _narrowest(value: Value) -> Value:
    """The integer that `value` is, before it was widened by its sign."""
    while value.op is not None and value.op.name == "arith.extsi":
        (source,) = value.op.operands
        if source.type.scalar is i1:
            return value
        value = source
    return value


def _root(value: Value) -> Value:
    """The integer that `value` is, but for a constant that is added and for its width."""
    base = _narrowest(value)
    while (added := _added(base)) is not None:
        base = _narrowest(added[0])
    return base


def _added(value: Value) -> tuple[Value, int] | None:
    """The integer and the constant whose sum `value` is."""
    total = binary_of(value, "arith.addi")
    number = None if total is None else integer_of(total.rhs)
    return None if total is None or number is None else (total.lhs, number)


def _all_of(value: Value) -> Range:
    """The integers of a value's type, read with a sign."""
    half = 1 << (value.type.scalar.bits - 1)
    return Range(-half, half - 1)
