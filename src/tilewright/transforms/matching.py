"""Small predicates on values for rules."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.arith import Binary, Constant
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value


def number_of(value: Value) -> Number | None:
    """The literal behind `value`: a scalar constant, or a constant tile of equal elements."""
    op = value.owner
    if isinstance(op, Constant):
        literal = op.attributes["value"]  # not by its name: most rules ask this of most operands
        if isinstance(literal, Number):
            return literal
    return None


def constant_of(value: Value) -> int | float | None:
    """The number that `value` (or each of its elements) is known to be."""
    number = number_of(value)
    return None if number is None else number.value


def integer_of(value: Value) -> int | None:
    """`constant_of` for integers."""
    constant = constant_of(value)
    return constant if isinstance(constant, int) else None


def is_always(mask: Value | None, truth: int) -> bool:
    """Whether there is a mask, and it is known to be `truth` (0 or 1) everywhere."""
    return mask is not None and constant_of(mask) == truth


def is_zero(value: Value) -> bool:
    """Whether `value` is known to be +0 or -0."""
    return constant_of(value) == 0


def binary_of(value: Value, *names: str) -> Binary | None:
    """The op of two operands that computes `value`, if it is called one of `names`."""
    op = value.owner
    return op if isinstance(op, Binary) and op.name in names else None


def has_one_use(value: Value) -> bool:
    """Whether exactly one operand of one op is `value`."""
    return sum(value.uses.values()) == 1


def uses_of(value: Value) -> list[tuple[Op, int]]:
    """The operands that are `value`: the ops and the positions."""
    return [(user, i) for user in value.uses for i, operand in enumerate(user.operands) if operand is value]


def is_inside(value: Value, op: Op) -> bool:
    """Whether `value` is defined in a region of `op`."""
    owner = value.owner
    if not isinstance(owner, Op):
        return owner.region is not None and owner.region.op is not None and is_in(owner.region.op, op)
    return owner is not op and is_in(owner, op)


def is_in(op: Op, outer: Op) -> bool:
    """Whether `op` is `outer`, or stands in one of its regions."""
    inner: Op | None = op
    while inner is not None and inner is not outer:
        inner = inner.parent
    return inner is outer


def following(op: Op) -> Iterator[Op]:
    """The ops behind `op` in its block; each may be moved or erased when it was given."""
    later = op.next
    while later is not None:
        current, later = later, later.next
        yield current


def is_after(op: Op | None, earlier: Op) -> bool:
    """Whether `op`, or what it stands in, follows `earlier` in its block."""
    ancestor = None if op is None else ancestor_in(op, earlier.block)
    return any(later is ancestor for later in following(earlier))
