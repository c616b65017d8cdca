"""The first and the last byte that an access may touch, computed from scalars alone.

    addptr(splat(%p), splat(%start) + range(0, 128)) : ptr<f32>        %p + 4 · %start … %p + 4 · (%start + 127) + 3

One comparison of the ends replaces one per lane, for tiles that are inside their argument as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.backends.cpu.sanitize.code import Code, Term
from tilewright.backends.cpu.sanitize.places import Place
from tilewright.dialects.arith import IntegerCast
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.core import Value
from tilewright.ir.types import i64
from tilewright.transforms.matching import integer_of


class Interval(NamedTuple):
    """All numbers from `low` to `high`, both i64."""

    low: Term
    high: Term

    def within(self, start: Term, size: Term) -> Term:
        """Whether all bytes lie in the `size` bytes from `start` on."""
        return self.low.at_least(start) & self.high.at_most(start + size - 1)


def interval_of_place(place: Place) -> Interval | None:
    """The bytes that an access may touch; None if they depend on each lane."""
    if place.start is None:
        return None
    interval = _interval(place.elements.code, place.elements.value)
    if interval is None:
        return None
    low, high = (place.start + end * place.size for end in interval)
    return Interval(low, high + (place.size - 1))


def _interval(code: Code, value: Value) -> Interval | None:
    if not value.type.shape:
        scalar = code.of(value).to(i64)
        return Interval(scalar, scalar)
    op = value.op
    if op is None:
        return None
    if isinstance(op, (Broadcast, ExpandDims, Splat)):
        return _interval(code, op.source)
    if isinstance(op, IntegerCast) and op.name == "arith.extsi":
        return _interval(code, op.operand)
    number = op.start if isinstance(op, MakeRange) else integer_of(value)
    if number is not None:
        last = op.end - 1 if isinstance(op, MakeRange) else number
        return Interval(code.number(number, i64), code.number(last, i64))
    rule = _RULES.get(op.name)
    intervals = [_interval(code, operand) for operand in op.operands] if rule else []
    known = [interval for interval in intervals if interval is not None]
    return rule(*known) if rule and len(known) == len(intervals) else None


def _sum(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.high + b.high)


def _difference(a: Interval, b: Interval) -> Interval:
    return Interval(a.low - b.high, a.high - b.low)


def _product(a: Interval, b: Interval) -> Interval | None:
    """The interval of the product of a tile and one number; None for two tiles."""
    if a.low.value is a.high.value:
        a, b = b, a
    if b.low.value is not b.high.value:
        return None
    ends = [end * b.low for end in a]
    return Interval(ends[0].least(ends[1]), ends[0].most(ends[1]))


def _remainder(a: Interval, b: Interval) -> Interval | None:
    """The interval of a remainder by one number: below it, and as negative as the dividend may be."""
    if b.low.value is not b.high.value:
        return None
    most = b.low.most(b.low.code.number(0, i64) - b.low) - 1
    return Interval(a.low.least(0).most(most.code.number(0, i64) - most), most)


_RULES: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "arith.addi": _sum,
    "arith.muli": _product,
    "arith.remsi": _remainder,
    "arith.subi": _difference,
}
