"""Small questions that rules ask about values."""

from __future__ import annotations

from tilewright.dialects.arith import Binary, Constant
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value


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


def is_inside(value: Value, op: Op) -> bool:
    """Whether `value` is defined in a region of `op`."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.block
    while block is not None and block.region is not None and block.region.op is not None:
        if block.region.op is op:
            return True
        block = block.region.op.block
    return False
