"""Masks of accesses, as conditions that all hold on each active lane.

    (%i < %n) & (%i % 2 == 0)       bounds: %n - 1 - i0 >= 0        on: [1, 0, 1, 0, …]

Lanes that fail one of the conditions are off. A condition that the analysis does not understand is left
out; then more lanes count as active.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tilewright.analysis.index_tables import Shape
from tilewright.analysis.integer_forms import Form, added, extended, number_form, scaled, subtracted
from tilewright.analysis.value_forms import MOVES, ValueForms, is_integral, moved
from tilewright.dialects.arith import Binary, CompareIntegers
from tilewright.dialects.tt_shape import ShapeOp
from tilewright.ir.core import Op, Value
from tilewright.support.exact_rounding import Array

DEEPEST = 64
"""Max depth of the ops through which a mask is followed."""

LESS, EQUAL, GREATER = 1, 2, 4
RELATIONS = {
    "eq": EQUAL,
    "ne": LESS | GREATER,
    **dict.fromkeys(("slt", "ult"), LESS),
    **dict.fromkeys(("sle", "ule"), LESS | EQUAL),
    **dict.fromkeys(("sgt", "ugt"), GREATER),
    **dict.fromkeys(("sge", "uge"), GREATER | EQUAL),
}
"""For each predicate the outcomes of a comparison for which it is true."""
ANY = LESS | EQUAL | GREATER

Key: TypeAlias = tuple[object, ...]


class Fact(NamedTuple):
    """What is compared, and the outcomes for which lanes are active; a truth value is compared with true.

    Attributes:
        key: the values, and the ops that moved the outcome among the lanes.
        outcomes: some of LESS, EQUAL and GREATER.
        is_uniform: it is the same on all lanes.
    """

    key: Key
    outcomes: int
    is_uniform: bool


class Mask(NamedTuple):
    """The conditions on active lanes.

    Attributes:
        on: per lane whether it may be active, as far as nothing at run time matters; None: all may be.
        bounds: forms that are not negative on active lanes.
        facts: outcomes of comparisons, to be compared with those of other masks.
        is_exact: `on` alone says which lanes are active.
    """

    on: Array | None = None
    bounds: tuple[Form, ...] = ()
    facts: tuple[Fact, ...] = ()
    is_exact: bool = True


ALL = Mask()
UNKNOWN = Mask(is_exact=False)


def mask_of(forms: ValueForms, value: Value | None, depth: int = DEEPEST) -> Mask:
    """The conditions in a mask, a tile of truth values or one of them."""
    if value is None:
        return ALL
    array = forms.array(value)
    if array is not None:
        return Mask(None if array.all() else array)
    op = value.op
    rule = RULES_OF_MASKS.get(op.name) if op is not None and depth else None
    mask = rule(forms, op, depth - 1) if rule is not None and op is not None else None
    return mask or _truth(value, EQUAL)


def excludes(a: Mask, b: Mask, *, same_lane: bool) -> bool:
    """Whether the facts say that no lane is active in both; with `same_lane`, none that is the same in both."""
    return any(
        x.key == y.key and not x.outcomes & y.outcomes
        for x in a.facts
        for y in b.facts
        if same_lane or (x.is_uniform and y.is_uniform)
    )


def _truth(value: Value, outcomes: int) -> Mask:
    return Mask(facts=(Fact((value,), outcomes, value.type.shape is None),), is_exact=False)


def _both(forms: ValueForms, op: Binary, depth: int) -> Mask:
    a, b = (mask_of(forms, operand, depth) for operand in op.operands)
    on = a.on if b.on is None else b.on if a.on is None else a.on & b.on
    return Mask(on, a.bounds + b.bounds, a.facts + b.facts, a.is_exact and b.is_exact)


def _negated(forms: ValueForms, op: Binary, depth: int) -> Mask | None:
    """The negation of one condition."""
    flipped, value = forms.array(op.rhs), op.lhs
    if flipped is None:
        flipped, value = forms.array(op.lhs), op.rhs
    if flipped is None or not flipped.all():
        return None
    comparison = value.op
    if isinstance(comparison, CompareIntegers):
        return _outcomes(forms, comparison, ANY ^ RELATIONS[comparison.predicate])
    mask = mask_of(forms, value, depth)
    if mask.on is not None or len(mask.facts) != 1:
        return _truth(value, ANY ^ EQUAL)
    (fact,) = mask.facts
    return Mask(facts=(fact._replace(outcomes=ANY ^ fact.outcomes),), is_exact=False)


def _compared(forms: ValueForms, op: CompareIntegers, depth: int) -> Mask:
    return _outcomes(forms, op, RELATIONS[op.predicate])


def _outcomes(forms: ValueForms, op: CompareIntegers, outcomes: int) -> Mask:
    is_unsigned = op.predicate.startswith("u")
    fact = Fact((op.lhs, op.rhs, is_unsigned), outcomes, op.result.type.shape is None)
    bounds: tuple[Form, ...] = ()
    if not is_unsigned and is_integral(op.lhs):
        bits = op.lhs.type.scalar.bits
        lhs, rhs = (extended(forms.of(v), bits) if bits < 64 else forms.of(v) for v in op.operands)
        bounds = _bounds(lhs, rhs, outcomes)
    return Mask(None, bounds, (fact,), is_exact=False)


def _bounds(lhs: Form, rhs: Form, outcomes: int) -> tuple[Form, ...]:
    """The forms that are not negative where the comparison comes out like this."""
    found = []
    for sign, beyond in ((1, LESS), (-1, GREATER)):
        if not outcomes & beyond:
            difference = scaled(subtracted(lhs, rhs), sign)
            found.append(difference if outcomes & EQUAL else added(difference, number_form(-1, lhs.shape)))
    return tuple(found)


def _moved(forms: ValueForms, op: ShapeOp, depth: int) -> Mask | None:
    """The mask of the source, with each condition moved as the op moves elements."""
    mask = mask_of(forms, op.source, depth)
    shape = op.result.type.shape or ()
    bounds = [moved(form, op) for form in mask.bounds]
    facts = [fact if fact.is_uniform else fact._replace(key=(*fact.key, *_move_of(op))) for fact in mask.facts]
    on = None if mask.on is None else _moved_array(op, mask.on, shape)
    return Mask(on, tuple(form for form in bounds if form is not None), tuple(facts), mask.is_exact)


def _move_of(op: Op) -> Key:
    return op.name, op.result.type.shape, str(op.attributes)


def _moved_array(op: ShapeOp, array: Array, shape: Shape) -> Array:
    semantics = op.definition.semantics
    assert semantics is not None, "ops that move elements have a meaning"
    return np.asarray(semantics(op, array))


RULES_OF_MASKS: dict[str, Callable[[ValueForms, Any, int], Mask | None]] = {
    "arith.andi": _both,
    "arith.cmpi": _compared,
    "arith.xori": _negated,
    **dict.fromkeys(MOVES, _moved),
}
