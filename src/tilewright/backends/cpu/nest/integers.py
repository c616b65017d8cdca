"""Integer arithmetic that keeps lanes affine, masks that stay prefixes.

range + uniform  = base' + 1 · lane           range · uniform = base' + stride · lane
base + lane < n  = lane < n - base            a remainder of a range that does not wrap is a range
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.cpu.affine import compares_as_one, extends_as_one, is_uniform
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import ActiveLaneBound, Affine, Lane, ModuloRange, Scalar, Uniform
from tilewright.dialects.arith import CompareIntegers, Division, IntegerCast, Unary
from tilewright.ir.core import Op, Value
from tilewright.ir.types import IntType, Type, i1, i64
from tilewright.transforms.matching import number_of


def affine_result(c: Context, op: Op, operands: list[Lane]) -> Lane | None:
    """The result of `op` if it stays more than a vector; None to compute it lane by lane."""
    if isinstance(op, Unary):
        return _cast(c, op, *operands) if isinstance(op, IntegerCast) else None
    if isinstance(op, CompareIntegers):
        return _compare(c, op, operands)
    if op.name == "arith.andi" and op.result.type.scalar is i1:
        return _both(c, operands)
    rule = _RULES.get(op.name)
    if rule is None or not isinstance(op.result.type.scalar, IntType) or op.result.type.scalar is i1:
        return None
    a, b = operands
    return rule(c, a, b, op.result.type.scalar)


def _add(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    if isinstance(a, Uniform):
        a, b = b, a
    if isinstance(a, Affine | ModuloRange) and isinstance(b, Uniform):
        level = max(a.level, b.level)
        return a._replace(base=c.add(a.base, b.value, type, level), level=level)
    if isinstance(a, Affine) and isinstance(b, Affine) and a.local == b.local:
        level = max(a.level, b.level)
        stride = c.add(a.stride, b.stride, type, level)
        return Affine(c.add(a.base, b.base, type, level), stride, level, a.local)
    return None


def _subtract(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    if not isinstance(a, Affine | Uniform) or not isinstance(b, Affine | Uniform):
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


class _Period(NamedTuple):
    """A range from `start` on that lies between two multiples of `divisor`.

    With `local`, it is that of one chunk of lanes.
    """

    start: Value
    divisor: Value
    level: int
    local: bool


def _period(c: Context, a: Lane, b: Lane, type: Type) -> _Period | None:
    """Where a range lies under the guard that it lies between two multiples: start % n + lanes ≤ n, and 0 ≤ start.

    With `c.wraps`, the guard is lanes ≤ n.
    """
    covered = c.fast
    if covered is None or not (isinstance(a, Affine) and isinstance(b, Uniform) and a.stride == 1 and not a.local):
        return None
    level = max(a.level, b.level, covered.level)
    last = (1 << (type.bits - 1)) - covered.lanes
    if level >= c.lane_level or last < 0:
        return None
    first = c.extend(covered.first, i64, type, level)
    divisor, start = c.value(b.value, type), c.value(c.add(a.base, first, type, level), type)
    positive = c.compare("sgt", divisor, 0, type, level)
    found = _Period(start, c.select(positive, divisor, 1, type, level), level, local=covered.level > 0)
    rest = 0 if c.wraps else _rest(c, found, type)
    room = c.subtract(divisor, covered.lanes, type, level)
    inside = c.binary("arith.andi", positive, c.compare("ule", start, last, type, level), i1, level)
    c.assume(c.binary("arith.andi", inside, c.compare("sle", rest, room, type, level), i1, level))
    return found


def _rest(c: Context, period: _Period, type: Type) -> Value:
    return c.binary("arith.remui", period.start, period.divisor, type, period.level)


def _remainder(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    """(base + lane) % n = base % n + lane between two multiples of n; with `c.wraps`, also across one."""
    period = _period(c, a, b, type)
    if period is None:
        return None
    rest, level = _rest(c, period, type), period.level
    if c.wraps:
        below = c.subtract(period.divisor, rest, type, level)
        return ModuloRange(rest, period.divisor, c.extend(below, type, i64, level), level)
    return Affine(rest, 1, level, period.local)


def _quotient(c: Context, a: Lane, b: Lane, type: Type) -> Lane | None:
    """(base + lane) / n = base / n between two multiples of n."""
    period = None if c.wraps else _period(c, a, b, type)
    if period is None:
        return None
    return Uniform(c.binary("arith.divui", period.start, period.divisor, type, period.level), period.level)


def is_quotient_of_range(op: Op) -> bool:
    """Whether `op` divides integers by a number that only the launch knows, which is one for all lanes."""
    if not isinstance(op, Division) or op.name not in _RULES:
        return False
    return is_uniform(op.rhs) and number_of(op.rhs) is None


_RULES = {
    "arith.addi": _add,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.muli": multiply,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.subi": _subtract,
}


def _cast(c: Context, op: IntegerCast, lane: Lane) -> Lane | None:
    source, target = op.operand.type.scalar, op.result.type.scalar
    if not isinstance(lane, Affine | ModuloRange) or i1 in (source, target):
        return None
    signed = op.name not in ("arith.extui", "arith.index_castui")
    if source.bits < target.bits and not extends_as_one(op.operand, signed=signed):
        return None
    if isinstance(lane, ModuloRange):
        return widened(c, lane, source, target)
    base, stride = (c.extend(part, source, target, lane.level) for part in (lane.base, lane.stride))
    return Affine(base, stride, lane.level, lane.local)


def widened(c: Context, lane: ModuloRange, source: Type, target: Type) -> ModuloRange:
    """`lane` in a wider or narrower type."""
    base, modulus = (c.extend(part, source, target, lane.level) for part in (lane.base, lane.modulus))
    return lane._replace(base=base, modulus=modulus)


_FARTHEST = 1 << 62
"""The max distance of a position from 0, in elements: there is no memory for more."""

# (predicate, lane count for base + lane <predicate> bound as bound - base + this)
_BELOW = {"slt": 0, "sle": 1, "ult": 0, "ule": 1}
_MIRRORED = {"sgt": "slt", "sge": "sle", "ugt": "ult", "uge": "ule"}


def _compare(c: Context, op: CompareIntegers, operands: list[Lane]) -> Lane | None:
    a, b = operands
    name = op.predicate
    if name in _MIRRORED:
        a, b, name = b, a, _MIRRORED[name]
    if name not in _BELOW or not (isinstance(a, Affine) and isinstance(b, Uniform)):
        return None
    if a.stride != 1 or a.local or (name[0] == "u" and not (isinstance(a.base, int) and a.base >= 0)):
        return None
    tile = next(v for v, lane in zip(op.operands, operands, strict=True) if lane is a)
    if not compares_as_one(tile) or (name[0] == "u" and tile.type.scalar.bits == 64):
        return None
    type = op.lhs.type.scalar
    level = max(a.level, b.level)
    bound = c.extend(b.value, type, i64, level, signed=name[0] == "s")
    base = c.extend(a.base, type, i64, level)
    if type is i64 and (base, name) != (0, "slt"):
        bound = _within_reach(c, bound, level)
    return ActiveLaneBound(c.add(c.subtract(bound, base, i64, level), _BELOW[name], i64, level), level)


def _within_reach(c: Context, bound: Scalar, level: int) -> Scalar:
    """An i64 for `bound`, on the same side of all positions, whose distance from them does not wrap."""
    if isinstance(bound, int):
        return min(max(bound, -_FARTHEST), _FARTHEST)
    return c.binary("arith.minsi", c.binary("arith.maxsi", bound, -_FARTHEST, i64, level), _FARTHEST, i64, level)


def _both(c: Context, operands: list[Lane]) -> Lane | None:
    a, b = operands
    if isinstance(a, Uniform):
        a, b = b, a
    if not isinstance(a, ActiveLaneBound):
        return None
    level = max(a.level, getattr(b, "level", 0))
    if isinstance(b, ActiveLaneBound):
        return ActiveLaneBound(c.binary("arith.minsi", a.below, b.below, i64, level), level)
    if isinstance(b, Uniform):
        return ActiveLaneBound(c.select(c.value(b.value, i1), a.below, 0, i64, level), level)
    return None
