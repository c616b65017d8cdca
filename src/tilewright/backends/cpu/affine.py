"""Analysis: which integer and pointer tiles are base + Σ index · stride.

Arithmetic modulo 2³² stays affine modulo 2³². An extension to 64 bits is affine where nothing wraps:

    arith.extsi(range(0, 512))                       nothing wraps: 0 … 511 fit
    arith.extsi(trunci(range(0, 512)) : i8)          wraps: …, 127, -128, …
    arith.extsi(splat(%n) + range), an offset        taken not to wrap: an offset that does leads nowhere
    arith.extsi(splat(%n) + range), stored           may wrap, so it is computed element by element
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

from tilewright.analysis.guard_conditions import range_of_product
from tilewright.backends.cpu.costs import is_tile
from tilewright.dialects.arith import (
    Binary,
    CompareIntegers,
    Constant,
    Division,
    IntegerRemainder,
    ModularArithmetic,
    Unary,
)
from tilewright.dialects.cpu import Assume
from tilewright.dialects.scf import For
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.types import IntType, PointerType, TensorType
from tilewright.transforms.matching import integer_of, number_of

Interval = tuple[int, int]
"""The least and the greatest value."""

FARTHEST = 50
"""Max number of ops through which a range is followed."""

MAX_ALIGNMENT = 1 << 16
"""Max power of two that is looked for in a number; 0 is a multiple of all."""


_OF_PLACES = (ModularArithmetic, Broadcast, ExpandDims)
"""Arithmetic of offsets, besides sign extensions and divisions with signs."""
_READERS = (Assume, CompareIntegers)
"""Ops that make no address and no number of an offset."""


def is_affine(value: Value) -> bool:
    """Whether `value` is base + Σ index · stride by construction, for indices into its tile."""
    stack, seen = [value], set[Op]()
    while stack:
        tile = stack.pop()
        if not isinstance(tile.type, TensorType) or tile.op in seen:
            continue
        op = tile.op
        keeps = None if op is None else _KEEPS_LINES.get(op.name)
        if op is None or keeps is None or not keeps(op):
            return False
        seen.add(op)
        stack += op.operands
    return True


def keeps_lines(op: Op) -> bool:
    """Whether the result of `op` is affine if its operands are."""
    keeps = _KEEPS_LINES.get(op.name)
    return keeps is not None and keeps(op) and all(v.op is not None for v in op.operands if is_tile(v))


def is_uniform(value: Value) -> bool:
    """Whether the tile repeats one number."""
    op = value.op
    if op is None:
        return False
    if isinstance(op, (Broadcast, ExpandDims)):
        return is_uniform(op.source)
    return repeats(value)


def repeats(value: Value) -> bool:
    """Whether the tile is made of one number, by a tt.splat or as a constant."""
    return defining(value, Splat) is not None or number_of(value) is not None


def keeps_element_size(cast: Bitcast) -> bool:
    """Whether the tt.bitcast of pointers leaves offsets as they are."""
    source, target = cast.operand.type.scalar, cast.result.type.scalar
    if not isinstance(source, PointerType) or not isinstance(target, PointerType):
        return False
    return max(8, source.pointee.bits) == max(8, target.pointee.bits)


def extends_as_one(value: Value, *, signed: bool = True) -> bool:
    """Whether the affine tile `value` may be widened by widening its base and its stride."""
    scalar = value.type.scalar
    if not isinstance(scalar, IntType) or scalar.bits >= 64 or is_uniform(value):
        return True
    interval = interval_of(value)
    if interval is None:
        return signed and scalar.bits >= 32 and _is_place(value)
    return _fits(interval, scalar.bits) and (signed or interval[0] >= 0)


def compares_as_one(value: Value) -> bool:
    """Whether the affine tile `value` may be compared by where its line crosses, as long as that does not wrap."""
    interval, bits = interval_of(value), value.type.scalar.bits
    return bits >= 32 if interval is None else _fits(interval, bits)


def never_wraps(value: Value) -> bool:
    """Whether the integers in the affine tile `value` are those of its line without wrapping, at run time, too.

    Lanes of a remainder are a line only as far as it goes on.
    """
    op = value.op
    if isinstance(op, (Broadcast, ExpandDims)):
        return never_wraps(op.source)
    interval = interval_of(value)
    return isinstance(op, IntegerRemainder) or (interval is not None and _fits(interval, value.type.scalar.bits))


def counts(value: Value, *, signed: bool) -> bool:
    """Whether the tile `value` is below a number in its first lanes and in no others, if its elements go up by 1."""
    interval = interval_of(value)
    is_natural = interval is not None and interval[0] >= 0 and value.type.scalar.bits < 64
    return is_affine(value) and compares_as_one(value) and (signed or is_natural)


def _fits(interval: Interval, bits: int) -> bool:
    low, high = interval
    half = 1 << (bits - 1)
    return -half <= low and high < half and high - low < half


def _always(op: Op) -> bool:
    return True


def _constant_keeps(op: Constant) -> bool:
    return is_uniform(op.result)


def _extsi_keeps(op: Unary) -> bool:
    return extends_as_one(op.operand)


def _extui_keeps(op: Unary) -> bool:
    return extends_as_one(op.operand, signed=False)


def _muli_keeps(op: Binary) -> bool:
    return is_uniform(op.lhs) or is_uniform(op.rhs)


def _addptr_keeps(op: AddPtr) -> bool:
    return extends_as_one(op.offset)


_KEEPS_LINES: dict[str, Callable[[Any], bool]] = {
    "arith.addi": _always,
    "arith.constant": _constant_keeps,
    "arith.extsi": _extsi_keeps,
    "arith.extui": _extui_keeps,
    "arith.index_cast": _always,
    "arith.muli": _muli_keeps,
    "arith.subi": _always,
    "arith.trunci": _always,
    "cpu.redirect": _always,
    "tt.addptr": _addptr_keeps,
    "tt.bitcast": keeps_element_size,
    "tt.broadcast": _always,
    "tt.expand_dims": _always,
    "tt.make_range": _always,
    "tt.splat": _always,
}


def _is_place(value: Value) -> bool:
    """Whether `value` is used for addresses and masks only."""
    stack, seen = [value], set[Value]()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        for user in value.uses:
            if isinstance(user, _OF_PLACES) or user.name == "arith.extsi" or _divides_with_sign(user):
                stack.append(user.result)
            elif not isinstance(user, _READERS) and not (isinstance(user, AddPtr) and user.pointer is not value):
                return False
    return True


def _divides_with_sign(op: Op) -> bool:
    return isinstance(op, Division) and op.name.endswith("si")


def multiple_of(number: Value | int, ops: int = FARTHEST) -> int:
    """A power of two that divides `number`, derived from a few ops; sums and products may wrap."""
    if isinstance(number, int):
        return min(number & -number or MAX_ALIGNMENT, MAX_ALIGNMENT)
    known = integer_of(number)
    if known is not None:
        return multiple_of(known)
    rule, parts = _multiple_by(number)
    return min(rule(*(multiple_of(part, ops // 2) for part in parts)), MAX_ALIGNMENT) if rule and ops else 1


def _multiple_by(number: Value) -> tuple[Callable[..., int] | None, Sequence[Value]]:
    """The rule for a power of two that divides `number`, and the numbers that it goes by."""
    loop, op = _loop_of(number), number.op
    if loop is not None:
        return min, (loop.low, loop.step)
    return (None, ()) if op is None else (_MULTIPLES.get(op.name), op.operands)


def _loop_of(counter: Value) -> For | None:
    """The loop whose iterations `counter` counts."""
    region = counter.block.region if counter.op is None and counter.block is not None else None
    loop = region.op if region is not None else None
    return loop if isinstance(loop, For) and loop.induction_variable is counter else None


_MULTIPLES: dict[str, Callable[..., int]] = {
    "arith.addi": min,
    "arith.extsi": int,
    "arith.extui": int,
    "arith.muli": mul,
    "arith.subi": min,
    "arith.trunci": int,
}


def interval_of(value: Value) -> Interval | None:
    """The range of the integers in `value` if a few ops determine it at compile time, without wrapping."""
    return _interval(value, FARTHEST, {})


def _interval(value: Value, ops: int, known: dict[Value, Interval | None]) -> Interval | None:
    if value not in known:
        known[value] = _new_interval(value, ops, known) if ops else None
    return known[value]


def _new_interval(value: Value, ops: int, known: dict[Value, Interval | None]) -> Interval | None:
    op = value.op
    if op is None:
        return None
    rule = _INTERVALS.get(op.name)
    if rule is not None:
        parts = list[Interval]()
        for operand in op.operands:
            part = _interval(operand, ops - 1, known)
            if part is None:
                return _range_of_extension(op)
            parts.append(part)
        return rule(*parts)
    if isinstance(op, MakeRange):
        return op.start, op.end - 1
    number = integer_of(value)
    return None if number is None else (number, number)


def _range_of_extension(op: Op) -> Interval | None:
    """The range of one number that has been extended with its sign."""
    if not isinstance(op, Unary) or op.name != "arith.extsi" or (is_tile(op.result) and not is_uniform(op.result)):
        return None
    half = 1 << (op.operand.type.scalar.bits - 1)
    return -half, half - 1


_INTERVALS: dict[str, Callable[..., Interval]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.muli": range_of_product,
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    **dict.fromkeys(("arith.extsi", "arith.trunci", "tt.broadcast", "tt.expand_dims", "tt.splat"), lambda a: a),
}
