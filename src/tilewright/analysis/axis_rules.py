"""Axis info of one op's results from its operands': the transfer functions of `axis_info`, by op name.

Rules, for one axis of extent n; c, d, k are contiguity, divisibility, constancy, e divides each element (d where c = 1,
else 1):

    a + b         c = max(gcd(c(a), k(b)), gcd(k(a), c(b)))     d = gcd(d(a), d(b), c if a or b counts up)
    a - b         c = gcd(c(a), k(b))                           d likewise
    a * b         d = e(a) · e(b)
    a / b         k = gcd(c(a), d(a), d(b))                     where c(a) = n and k(b) = n
    a % b         c = gcd(c(a), d(a), d(b))                     where c(a) = n and k(b) = n
    a < b         k = gcd(c(a), d(a), d(b))                     where k(b) = n; also a >= b, b > a, b <= a
    max, min      c = gcd(c(a), c(b))
    otherwise     c = d = 1, k = gcd of the operands' k

Operands that are constants give a constant. As in Triton the rules assume that nothing overflows, that neither
truncation nor extension changes a value, and that numerators are not negative: -4 … -1 over 4 is -1, 0, 0, 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from tilewright.analysis.axis_lattice import (
    UNBOUNDED,
    AxisInfo,
    axes,
    common_divisibility,
    nothing_known,
    of_constant,
    unit_of,
    unused,
)
from tilewright.analysis.axis_shapes import SHAPE_TRANSFERS, Transfer
from tilewright.dialects.arith import CompareIntegers, Constant, Select
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import MakeRange
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op


def _equal_in_groups(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Equal operands give equal results."""
    ones = (1,) * len(axes(op.result.type))
    return AxisInfo(ones, ones, tuple(gcd(*ks) for ks in zip(*(a.constancy for a in operands), strict=True)))


def _of_axes(op: Op, columns: Sequence[tuple[int, int]], operands: Sequence[AxisInfo]) -> AxisInfo:
    """The info made of (contiguity, divisibility) per axis; equal operands give equal results."""
    contiguity, divisibility = zip(*columns, strict=True)
    return _equal_in_groups(op, operands)._replace(contiguity=contiguity, divisibility=divisibility)


def _constants(operands: Sequence[AxisInfo]) -> tuple[int, int] | None:
    a, b = operands
    return None if a.constant is None or b.constant is None else (a.constant, b.constant)


def _product(a: int, b: int) -> int:
    return min(a * b, UNBOUNDED)


def _sum_divisibility(op: Op, operands: Sequence[AxisInfo], axis: int, contiguity: int) -> int:
    a, b = operands
    unit = unit_of(op.result.type)
    first, second = a.divisibility[axis], _product(b.divisibility[axis], unit)
    if a.contiguity[axis] > 1 and b.contiguity[axis] > 1:
        if op.name == "arith.subi" and a.contiguity[axis] == b.contiguity[axis]:
            return gcd(first, second)
        return gcd(first, second, 2)
    if a.contiguity[axis] > 1 or b.contiguity[axis] > 1:
        return gcd(first, second, _product(contiguity, unit))
    return gcd(first, second)


def _sum(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    sign = -1 if op.name == "arith.subi" else 1
    known = _constants(operands)
    if known is not None:
        return of_constant(known[0] + sign * known[1] * unit_of(op.result.type), op.result.type)
    columns = []
    for axis in range(len(a.contiguity)):
        group = gcd(a.contiguity[axis], b.constancy[axis])
        if sign > 0:
            group = max(group, gcd(a.constancy[axis], b.contiguity[axis]))
        columns.append((group, _sum_divisibility(op, operands, axis, group)))
    return _of_axes(op, columns, operands)


def _multiply(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    known = _constants(operands)
    if known is not None:
        return of_constant(known[0] * known[1], op.result.type)
    if 0 in (a.constant, b.constant):
        return of_constant(0, op.result.type)
    for factor, other in ((b, a), (a, b)):
        if factor.constant == 1:
            return other
    columns = [(1, _product(a.element_divisor(axis), b.element_divisor(axis))) for axis in range(len(a.contiguity))]
    return _of_axes(op, columns, operands)


def _whole_groups(op: Op, operands: Sequence[AxisInfo], axis: int) -> int:
    """The size of the groups a counting-up `a` falls into when divided by a uniform `b`; 1 if they are not that."""
    a, b = operands
    extent = axes(op.result.type)[axis]
    if op.result.type.shape is None or a.contiguity[axis] != extent or b.constancy[axis] != extent:
        return 1
    return gcd(a.contiguity[axis], a.divisibility[axis], b.divisibility[axis])


def _divide(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    known = _constants(operands)
    if known is not None and known[1]:
        quotient = abs(known[0]) // abs(known[1])
        return of_constant(quotient if (known[0] < 0) == (known[1] < 0) else -quotient, op.result.type)
    if b.constant == 1:
        return a
    exact = 1 if a.constant == 0 else abs(b.constant or 0)
    if exact.bit_count() != 1:
        exact = UNBOUNDED
    columns = [(1, max(1, a.element_divisor(axis) // exact)) for axis in range(len(a.contiguity))]
    result = _of_axes(op, columns, operands)
    groups = (_whole_groups(op, operands, axis) for axis in range(len(columns)))
    return result._replace(constancy=tuple(map(max, result.constancy, groups)))


def _remainder(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    if b.constant == 1:
        return of_constant(0, op.result.type)
    known = _constants(operands)
    if known is not None and known[1]:
        rest = abs(known[0]) % abs(known[1])
        return of_constant(rest if known[0] >= 0 else -rest, op.result.type)
    columns = []
    for axis in range(len(a.contiguity)):
        group = _whole_groups(op, operands, axis)
        starts = a.divisibility[axis] if group > 1 else a.element_divisor(axis)
        columns.append((group, gcd(starts, b.divisibility[axis]) if b.constancy[axis] > 1 else 1))
    return _of_axes(op, columns, operands)


# --- comparing and choosing -------------------------------------------------------------------------------------

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _compare(op: CompareIntegers, operands: Sequence[AxisInfo]) -> AxisInfo:
    if op.result.type.shape is None:
        return nothing_known(op.result.type)
    predicate = op.predicate
    name = predicate[-2:]
    known = _constants(operands)
    if known is not None:
        a, b = (value % (1 << 64) if predicate[0] == "u" else value for value in known)
        return of_constant(int(COMPARISONS[name](a, b)), op.result.type)
    result = _equal_in_groups(op, operands)
    if name in ("eq", "ne"):
        return result
    counting, fixed = operands if name in ("lt", "ge") else reversed(operands)
    constancy = list(result.constancy)
    for axis, extent in enumerate(axes(op.result.type)):
        if fixed.constancy[axis] == extent:
            group = gcd(counting.contiguity[axis], counting.divisibility[axis], fixed.divisibility[axis])
            constancy[axis] = max(constancy[axis], group)
    return result._replace(constancy=tuple(constancy))


def _either(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Each element is from one of two tiles, the same one throughout a group."""
    a, b = operands
    rank = range(len(a.contiguity))
    columns = [(gcd(a.contiguity[axis], b.contiguity[axis]), common_divisibility(a, b, axis)) for axis in rank]
    return _of_axes(op, columns, operands)


def _extremum(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """min(x + i, y + i) = min(x, y) + i."""
    known = _constants(operands)
    if known is not None:
        choose = max if op.name.startswith("arith.max") else min
        return of_constant(choose(known), op.result.type)
    return _either(op, operands)


def _select(op: Select, operands: Sequence[AxisInfo]) -> AxisInfo:
    condition, *choices = operands
    if condition.constant is not None:
        return choices[0] if condition.constant else choices[1]
    known = _constants(choices)
    if known is not None and known[0] == known[1]:
        return of_constant(known[0], op.result.type)
    result = _either(op, choices)
    if op.condition.type.shape is None:
        return result
    contiguity = tuple(map(gcd, result.contiguity, condition.constancy))
    return AxisInfo(
        contiguity,
        tuple(map(gcd, result.divisibility, contiguity)),
        tuple(map(gcd, result.constancy, condition.constancy)),
    )


# --- bits -------------------------------------------------------------------------------------------------------

BITWISE: dict[str, Callable[[int, int], int]] = {
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
}


def _bitwise(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    known = _constants(operands)
    if known is not None:
        return of_constant(BITWISE[op.name](*known), op.result.type)
    return _equal_in_groups(op, operands)


def _shift(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """a << n = a · 2^n, a >> n = a / 2^n; by how much is not known, so is a >> n, and a << n has a's divisors."""
    a, amount = operands
    left = op.name == "arith.shli"
    shift = amount.constant
    if shift == 0:
        return a
    if shift is not None and shift not in range(op.result.type.bits):
        return _equal_in_groups(op, operands)
    if shift is not None and a.constant is not None:
        return of_constant(a.constant << shift if left else a.constant >> shift, op.result.type)
    divisors = [a.element_divisor(axis) for axis in range(len(a.contiguity))]
    if left:
        divisors = [_product(divisor, 1 << (shift or 0)) for divisor in divisors]
    else:
        divisors = [1 if shift is None else max(1, divisor >> shift) for divisor in divisors]
    return _of_axes(op, [(1, divisor) for divisor in divisors], operands)


# --- sources and conversions ------------------------------------------------------------------------------------


def _unchanged(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,) = operands
    return a


def _retyped(op: Bitcast, operands: Sequence[AxisInfo]) -> AxisInfo:
    """The same bits; where neighbours are another number of bytes apart, they no longer count up."""
    (a,) = operands
    if unit_of(op.operand.type) == unit_of(op.result.type):
        return a
    divisors = tuple(a.element_divisor(axis) for axis in range(len(a.contiguity)))
    return AxisInfo((1,) * len(divisors), divisors, a.constancy)


def _foreign(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """A cast between type systems, during a conversion."""
    a, *_ = operands
    fits = len(a.contiguity) == len(axes(op.result.type)) or op.result.type.shape is None
    return a if fits else nothing_known(op.result.type)


def _constant(op: Constant, operands: Sequence[AxisInfo]) -> AxisInfo:
    value = op.value
    if isinstance(value, Number) and isinstance(value.value, int):
        return of_constant(int(value.value), op.result.type)
    return nothing_known(op.result.type)


def _poison(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    return unused(op.result.type)


def _make_range(op: MakeRange, operands: Sequence[AxisInfo]) -> AxisInfo:
    first = op.start
    return AxisInfo(axes(op.result.type), (first & -first or 1 << 30,), (1,))


def _load(op: Load, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Equal addresses hold equal values, unless somebody writes meanwhile; where the mask is false, `other` counts."""
    block_pointer = op.pointer.type.shape is None and op.result.type.shape is not None
    if op.is_volatile or block_pointer:
        return nothing_known(op.result.type)
    return _equal_in_groups(op, operands)


TRANSFERS: dict[str, Transfer] = {
    **SHAPE_TRANSFERS,
    "arith.constant": _constant,
    "arith.addi": _sum,
    "arith.subi": _sum,
    "arith.muli": _multiply,
    "arith.shli": _shift,
    "arith.divsi": _divide,
    "arith.divui": _divide,
    "arith.shrsi": _shift,
    "arith.shrui": _shift,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.cmpi": _compare,
    "arith.minsi": _extremum,
    "arith.maxsi": _extremum,
    "arith.minui": _extremum,
    "arith.maxui": _extremum,
    "arith.select": _select,
    "arith.andi": _bitwise,
    "arith.ori": _bitwise,
    "arith.xori": _bitwise,
    "arith.extsi": _unchanged,
    "arith.extui": _unchanged,
    "arith.trunci": _unchanged,
    "builtin.unrealized_conversion_cast": _foreign,
    "gluon.set_auto_layout": _unchanged,
    "tt.addptr": _sum,
    "tt.bitcast": _retyped,
    "tt.make_range": _make_range,
    "tt.load": _load,
    "ttg.convert_layout": _unchanged,
    "ub.poison": _poison,
}
