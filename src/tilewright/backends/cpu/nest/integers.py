"""Integer arithmetic that keeps lanes affine, masks that stay prefixes.

range + uniform  = base' + 1 · lane           range · uniform = base' + stride · lane
base + lane < n  = lane < n - base            a remainder of a range that does not wrap is a range
base + lane = n  = lane = n - base

A range that begins at a multiple of 8 is divided by 8 without a division, where it is known not to wrap:

(base + lane) / 8 = base / 8 + lane / 8          (base + lane) % 8 = 0, 1, … 7, 0, 1, … 7
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.affine import compares_as_one, extends_as_one, is_uniform, multiple_of, never_wraps
from tilewright.backends.cpu.nest.context import Context, Period
from tilewright.backends.cpu.nest.lane_values import (
    LANE,
    RANGES,
    ActiveLaneBound,
    Affine,
    Lane,
    ModuloRange,
    RepeatedRange,
    Scalar,
    Uniform,
    Vector,
    WrappingLine,
    WrappingSum,
)
from tilewright.dialects.arith import CompareIntegers, IntegerCast, Unary
from tilewright.ir.core import Op, Value
from tilewright.ir.types import IntType, Type, i1, i32, i64


def affine_result(c: Context, op: Op, operands: list[Lane]) -> Lane | None:
    """The result of `op` if it stays more than a vector; None to compute it lane by lane."""
    if isinstance(op, Unary):
        return _cast(c, op, *operands) if isinstance(op, IntegerCast) else None
    if isinstance(op, CompareIntegers):
        return _compare(c, op, operands)
    if op.name == "arith.andi" and op.result.type.scalar is i1:
        return both(c, *operands)
    rule = _RULES.get(op.name)
    if rule is None or not isinstance(op.result.type.scalar, IntType) or op.result.type.scalar is i1:
        return None
    a, b = operands
    return rule(c, a, b, op.result.type.scalar)


def _add(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    if isinstance(a, Uniform):
        a, b = b, a
    if isinstance(a, RANGES) and isinstance(b, Uniform):
        level = max(a.level, b.level)
        return a._replace(base=c.add(a.base, b.value, type, level), level=level)
    if isinstance(a, Affine) and isinstance(b, Affine) and a.local == b.local:
        level = max(a.level, b.level)
        stride = c.add(a.stride, b.stride, type, level)
        return Affine(c.add(a.base, b.base, type, level), stride, level, a.local)
    return None


def _subtract(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    if not isinstance(a, (Affine, Uniform)) or not isinstance(b, (Affine, Uniform)):
        return None
    level = max(a.level, b.level)
    if isinstance(a, Affine) and isinstance(b, Uniform):
        return Affine(c.subtract(a.base, b.value, type, level), a.stride, level, a.local)
    if isinstance(a, Uniform) and isinstance(b, Affine):
        stride = c.subtract(0, b.stride, type, level)
        return Affine(c.subtract(a.value, b.base, type, level), stride, level, b.local)
    if isinstance(a, Affine) and isinstance(b, Affine) and a.local == b.local:
        stride = c.subtract(a.stride, b.stride, type, level)
        return Affine(c.subtract(a.base, b.base, type, level), stride, level, a.local)
    return None


def multiply(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    """a · b where one of them is uniform."""
    if isinstance(a, Uniform):
        a, b = b, a
    if not (isinstance(a, Affine) and isinstance(b, Uniform)):
        return None
    level = max(a.level, b.level)
    base, stride = (c.multiply(part, b.value, type, level) for part in (a.base, a.stride))
    return Affine(base, stride, level, a.local)


def new_period(c: Context, a: Lane, b: Lane, type: Type) -> Period | None:
    """The period that lane 0 of a range divided by a number is in."""
    if not (isinstance(a, Affine) and isinstance(b, Uniform) and a.stride == 1 and not a.local):
        return None
    level, inside = max(a.level, b.level), _never_wraps(c, a, type)
    if inside is None:
        return None
    positive = c.compare("sgt", b.value, 0, type, level)
    divisor = c.select(positive, b.value, 1, type, level)
    is_one = c.binary("arith.andi", positive, inside, i1, level)
    quotient, rest = (c.binary(name, a.base, divisor, type, level) for name in ("arith.divui", "arith.remui"))
    return Period(a.base, b.value, type, quotient, rest, level, is_one)


def _never_wraps(c: Context, range: Affine, type: Type) -> Value | None:
    """Whether nothing in the range is negative, or wraps, on the lanes of the tile, an i1; None: no type holds them."""
    last = (1 << (type.bits - 1)) - c.extent
    return None if last < 0 else c.compare("ule", range.base, last, type, range.level)


def aligned_divisor(c: Context, a: Lane, b: Lane) -> int | None:
    """The number that divides a range, if quotients begin with chunks of its lanes, and end with some; else None."""
    if c.programs != 1 or c.wraps or (c.fast is not None and c.fast.period is not None):
        return None
    if not (isinstance(a, Affine) and a.stride == 1 and not a.local and isinstance(b, Uniform)):
        return None
    number, is_negative = b.value, isinstance(a.base, int) and a.base < 0
    if not isinstance(number, int) or not 1 < number < c.extent or number & (number - 1) or is_negative:
        return None
    return number if multiple_of(a.base) % min(number, c.lanes) == 0 else None


def facts_of_aligned(c: Context, range: Affine, type: Type) -> Sequence[Value] | None:
    """The conditions under which a range that begins with a quotient is divided lane by lane; None: none suffice."""
    if isinstance(range.base, int):
        return () if range.base + c.extent <= 1 << (type.bits - 1) else None
    found = _never_wraps(c, range, type)
    return None if found is None or c.fast is None or range.level >= c.fast.level else (found,)


def facts_of(c: Context, period: Period) -> tuple[Value, Value]:
    """The conditions under which all of the tile that is read lies in `period`: start % n + lanes ≤ n.

    With `c.wraps`, all of it may lie in two, and lanes ≤ n.
    """
    lanes = c.extent if c.lanes_read is None else c.extend(c.lanes_read, i64, period.type, period.level)
    room = c.subtract(period.divisor, lanes, period.type, period.level)
    return period.is_one, c.compare("sle", 0 if c.wraps else period.rest, room, period.type, period.level)


def _period(c: Context, a: Lane, b: Lane, type: Type) -> Period | None:
    """Where a range lies, if the version relies on that."""
    if c.fast is None or not c.facts or not isinstance(a, Affine) or not isinstance(b, Uniform):
        return None
    found = c.fast.period
    if found is not None:
        is_this = (a.base, a.stride, a.local, b.value, type) == (found.start, 1, False, found.divisor, found.type)
        return found if is_this else None
    if max(a.level, b.level) >= c.fast.level:
        return None
    found = new_period(c, a, b, type)
    return found if found is not None and set(facts_of(c, found)) <= set(c.facts) else None


def _aligned(c: Context, a: Lane, b: Lane, type: Type) -> tuple[Affine, int] | None:
    """A range and its `aligned_divisor`, if it is known not to wrap."""
    number = aligned_divisor(c, a, b)
    if number is None or not isinstance(a, Affine):
        return None
    facts = facts_of_aligned(c, a, type)
    return None if facts is None or not set(facts) <= set(c.facts) else (a, number)


def _aligned_remainder(c: Context, a: Affine, number: int, type: Type) -> Lane:
    """(base + lane) % n = lane % n, or one range for each chunk."""
    if number <= c.lanes:
        return Vector(c.b.constants([lane % number for lane in range(c.lanes)], c.wide(type)), 0)
    level = max(a.level, c.lane_level)
    rest = c.binary("arith.andi", c.start_of(a, type), number - 1, type, level)
    return Affine(rest, 1, level, local=True)


def _aligned_quotient(c: Context, a: Affine, number: int, type: Type) -> Lane:
    """(base + lane) / n = base / n + lane / n, or one number for each chunk."""
    bits = number.bit_length() - 1
    if number < c.lanes:
        return RepeatedRange(c.shifted(a.base, bits, type, a.level), number, a.level)
    level = max(a.level, c.lane_level)
    return Uniform(c.shifted(c.start_of(a, type), bits, type, level), level)


def _remainder(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    """(base + lane) % n = base % n + lane between two multiples of n; with `c.wraps`, also across one."""
    aligned = _aligned(c, a, b, type)
    if aligned is not None:
        return _aligned_remainder(c, *aligned, type)
    period = _period(c, a, b, type)
    if period is None:
        return None
    rest, level = period.rest, period.level
    if c.wraps:
        below = c.subtract(period.divisor, rest, type, level)
        return ModuloRange(rest, period.divisor, c.extend(below, type, i64, level), level)
    return Affine(rest, 1, level)


def _quotient(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    """(base + lane) / n = base / n between two multiples of n."""
    aligned = _aligned(c, a, b, type)
    if aligned is not None:
        return _aligned_quotient(c, *aligned, type)
    period = None if c.wraps else _period(c, a, b, type)
    return None if period is None else Uniform(period.quotient, period.level)


def _and(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    """Bits of the numbers of lanes: from W on they are one number for a chunk, below W the same in each chunk."""
    begins_anywhere = c.fast is not None and c.fast.period is not None
    if a != LANE or not isinstance(b, Uniform) or not isinstance(b.value, int) or begins_anywhere:
        return None
    if b.value % c.lanes == 0:
        return Uniform(c.binary("arith.andi", c.position_as(type), b.value, type, c.lane_level), c.lane_level)
    if 0 <= b.value < c.lanes:
        return Vector(c.b.constants([lane & b.value for lane in range(c.lanes)], c.wide(type)), 0)
    return None


_RULES = {
    "arith.addi": _add,
    "arith.andi": _and,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.muli": multiply,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.subi": _subtract,
}


def _cast(c: Context, op: IntegerCast, lane: Lane) -> Lane | None:
    source, target = op.operand.type.scalar, op.result.type.scalar
    if not isinstance(lane, RANGES) or i1 in (source, target):
        return None
    signed = op.name not in ("arith.extui", "arith.index_castui")
    if source.bits < target.bits and not extends_as_one(op.operand, signed=signed):
        return None
    is_line = source.bits >= target.bits or c.for_places or is_uniform(op.operand) or never_wraps(op.operand)
    if is_line:
        return widened(c, lane, source, target)
    return WrappingLine(lane, source, lane.level) if isinstance(lane, Affine) and not lane.local else None


def widened(
    c: Context, lane: Affine | ModuloRange | RepeatedRange, source: Type, target: Type
) -> Affine | ModuloRange | RepeatedRange:
    """`lane` in a wider or narrower type."""
    if isinstance(lane, RepeatedRange):
        return lane._replace(base=c.extend(lane.base, source, target, lane.level))
    if isinstance(lane, Affine):
        base, stride = (c.extend(part, source, target, lane.level) for part in (lane.base, lane.stride))
        return Affine(base, stride, lane.level, lane.local)
    base, modulus = (c.extend(part, source, target, lane.level) for part in (lane.base, lane.modulus))
    return lane._replace(base=base, modulus=modulus)


_FARTHEST = 1 << 62
"""The max distance of two positions, in elements: there is no memory for more."""

# (predicate, lane count for base + lane <predicate> bound as bound - base + this)
_BELOW = {"slt": 0, "sle": 1, "ult": 0, "ule": 1}
_MIRRORED = {"sgt": "slt", "sge": "sle", "ugt": "ult", "uge": "ule"}


def _compare(c: Context, op: CompareIntegers, operands: list[Lane]) -> Lane | None:
    a, b = operands
    name = op.predicate
    if name in _MIRRORED:
        a, b, name = b, a, _MIRRORED[name]
    if name in ("eq", "ne"):
        return _equal(c, a, b, name, op.lhs.type.scalar)
    line, type = (a.line, a.type) if isinstance(a, WrappingLine) else (a, op.lhs.type.scalar)
    if name not in _BELOW or not (isinstance(line, Affine) and isinstance(b, Uniform)):
        return None
    if line.stride != 1 or line.local or (name[0] == "u" and not (isinstance(line.base, int) and line.base >= 0)):
        return None
    tile = next(v for v, lane in zip(op.operands, operands, strict=True) if lane is a)
    wraps = isinstance(a, WrappingLine) or not never_wraps(tile)
    if not compares_as_one(tile) or (name[0] == "u" and (wraps or type.bits == 64)):
        return None
    sum = WrappingSum(line.base, b.value, name, type, op.lhs.type.scalar, max(line.level, b.level))
    return ActiveLaneBound(_lanes_below(c, sum), sum.level, (sum,) if wraps else ())


def _equal(c: Context, a: Lane, b: Lane, predicate: str, type: Type) -> Lane | None:
    """start + lane = n is lane = n - start, for which 32 bits suffice: twice as many lanes as of 64 fit into a vector.

    Where the sum wraps before it is extended, n is to be one of its type.
    """
    if isinstance(a, Uniform):
        a, b = b, a
    line, narrow = (a.line, a.type) if isinstance(a, WrappingLine) else (a, type)
    if type is not i64 or not (isinstance(line, Affine) and line.stride == 1 and isinstance(b, Uniform)):
        return None
    level = max(line.level, b.level, 0 if line.local else c.lane_level)
    number = c.extend(b.value, i64, narrow, level)
    distance = c.subtract(number, c.start_of(line, narrow), narrow, level)
    place = c.extend(c.binary("arith.minui", distance, c.lanes, narrow, level), narrow, i32, level)
    if narrow is not i64:
        fits = c.compare("eq", c.extend(number, narrow, i64, level), b.value, i64, level)
        place = c.select(fits, place, c.lanes, i32, level)
    found = c.as_vector(Uniform(place, level), i32).value
    return Vector(c.compare(predicate, found, c.b.step(c.lanes, i32), c.wide(i32), level), level)


def _lanes_below(c: Context, sum: WrappingSum) -> Scalar:
    """The number of lanes, an i64, on which `sum` holds and before which it does not wrap."""
    level, more = sum.level, _BELOW[sum.predicate]
    bound = c.extend(sum.bound, sum.wide, i64, level, signed=sum.predicate[0] == "s")
    base = c.extend(sum.base, sum.type, i64, level)
    if sum.wide is not i64 or (base, sum.predicate) == (0, "slt"):
        return c.add(c.subtract(bound, base, i64, level), more, i64, level)
    below = c.add(_distance(c, bound, base, level), more, i64, level)
    return c.select(c.compare("sle", base, bound, i64, level), below, 0, i64, level)


def _distance(c: Context, bound: Scalar, base: Scalar, level: int) -> Scalar:
    """How far `bound` is above `base`, both i64, or `_FARTHEST` if that is less; anything where it is below."""
    return c.binary("arith.minui", c.subtract(bound, base, i64, level), _FARTHEST, i64, level)


def both(c: Context, a: Lane, b: Lane) -> Lane | None:
    """Where both of two masks hold, if that is a prefix."""
    if isinstance(a, Uniform):
        a, b = b, a
    if not isinstance(a, ActiveLaneBound):
        return None
    level = max(a.level, getattr(b, "level", 0))
    if isinstance(b, ActiveLaneBound):
        below: Scalar = c.binary("arith.minsi", a.below, b.below, i64, level)
    elif not isinstance(b, Uniform):
        return None
    elif b.value == 1:
        return a
    else:
        below = c.select(c.value(b.value, i1), a.below, 0, i64, level)
    parts = (*(a.parts or (a,)), *(getattr(b, "parts", ()) or (b,)))
    return ActiveLaneBound(below, level, parts if any(isinstance(part, WrappingSum) for part in parts) else ())
