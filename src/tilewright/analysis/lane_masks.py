"""Masks of accesses, as conditions that all hold on each active lane.

    (%i < %n) & (%i % 2 == 0)       bounds: %n - 1 - i0 >= 0        on: [1, 0, 1, 0, …]

Lanes that fail one of the conditions are inactive. A condition that the analysis does not understand is left out; then
more lanes count as active. So is a condition that compares a sum which may wrap, unless the access is at this sum,
because sums in addresses are assumed not to wrap (docs/memory-model.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilewright.analysis.integer_forms import Form, added, fits, interval_of, number_form, subtracted
from tilewright.analysis.value_forms import MOVES, ValueForms, is_integral, moved
from tilewright.dialects.arith import Binary, CompareIntegers, IntegerCast, ModularArithmetic
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.tt_shape import ShapeOp
from tilewright.ir.core import Value
from tilewright.ir.types import IntType
from tilewright.support.cached_property import cached_property
from tilewright.support.exact_rounding import Array

MAX_DEPTH = 64
"""Max depth of the ops through which a mask is followed."""


class Mask(NamedTuple):
    """The conditions on active lanes.

    Attributes:
        on: per lane whether it may be active, as far as nothing at run time matters; None: all may be.
        bounds: forms that are not negative on active lanes.
    """

    on: Array | None = None
    bounds: tuple[Form, ...] = ()


ALL = Mask()


def mask_of(forms: ValueForms, value: Value | None, place: Value) -> Mask:
    """The conditions in the mask `value`, a tile of truth values or one of them, of an access at `place`."""
    return ALL if value is None else _Masks(forms, place).of(value, MAX_DEPTH)


class _Masks:
    """The masks that one mask is made of, each of which is looked at once."""

    def __init__(self, forms: ValueForms, place: Value) -> None:
        self.forms = forms
        self.place = place
        self._known: dict[Value, Mask] = {}

    @cached_property
    def _sums(self) -> set[Value]:
        """The address or offset, and the sums and products that it consists of."""
        stack, found = [self.place], set[Value]()
        while stack:
            value = stack.pop()
            found.add(value)
            op = value.op
            if op is not None and (op.name in MOVES or isinstance(op, (AddPtr, IntegerCast, ModularArithmetic))):
                stack += {v for v in op.operands if is_integral(v)} - found
        return found

    def is_as_summed(self, value: Value) -> bool:
        """Whether the integers in `value` are those of its form, without wrapping."""
        while isinstance(value.op, ShapeOp) and value.op.name in MOVES:
            value = value.op.source
        scalar = value.type.scalar
        if value in self._sums or not isinstance(scalar, IntType):
            return True
        return fits(interval_of(self.forms.of(value).terms), scalar.bits)

    def of(self, value: Value, depth: int) -> Mask:
        """The conditions in `value`, through so many ops at most."""
        if value not in self._known:
            self._known[value] = self._new(value, depth)
        return self._known[value]

    def _new(self, value: Value, depth: int) -> Mask:
        if value.op is None:
            return ALL
        rule = RULES_OF_MASKS.get(value.op.name) if depth else None
        mask = None if rule is None else rule(self, value.op, depth - 1)
        if mask is not None:
            return mask
        array = self.forms.array(value)
        return ALL if array is None or array.all() else Mask(array)


def _both(masks: _Masks, op: Binary, depth: int) -> Mask:
    a, b = (masks.of(operand, depth) for operand in op.operands)
    on = a.on if b.on is None else b.on if a.on is None else a.on & b.on
    each = {id(bound): bound for bound in a.bounds + b.bounds}
    return Mask(on, tuple(each.values()))


def _compared(masks: _Masks, op: CompareIntegers, depth: int) -> Mask | None:
    """The form that is not negative where one integer is less than another, or no greater."""
    if op.predicate not in LINES or not is_integral(op.lhs):
        return None
    if not (masks.is_as_summed(op.lhs) and masks.is_as_summed(op.rhs)):
        return None
    is_greater, least = LINES[op.predicate]
    lhs, rhs = (masks.forms.of(value) for value in (op.operands if is_greater else reversed(op.operands)))
    bound = added(subtracted(lhs, rhs), number_form(-least, lhs.shape))
    return None if bound.is_constant else Mask(bounds=(bound,))


LINES = {"sge": (True, 0), "sgt": (True, 1), "sle": (False, 0), "slt": (False, 1)}
"""For each predicate whether the first operand is the greater one, and by how much at least."""


def _moved(masks: _Masks, op: ShapeOp, depth: int) -> Mask:
    """The mask of the source, with each condition moved as the op moves elements."""
    mask, semantics = masks.of(op.source, depth), op.definition.semantics
    assert semantics is not None, "ops that move elements have a meaning"
    bounds = [moved(form, op) for form in mask.bounds]
    on = None if mask.on is None else np.asarray(semantics(op, mask.on))
    return Mask(on, tuple(form for form in bounds if form is not None))


RULES_OF_MASKS: dict[str, Callable[[_Masks, Any, int], Mask | None]] = {
    "arith.andi": _both,
    "arith.cmpi": _compared,
    **dict.fromkeys(MOVES, _moved),
}
