"""Axis info of one op's results from its operands': the transfer functions of `axis_info`, by op name.

Rules, for one axis; c, d, k are contiguity, divisibility, constancy, `a|g` what divides a at multiples of g:

    add           (k, c) or (c, k) -> c        d = gcd(a|c, b|c)
    multiply      d = a|1 * b|1
    divide        a/b, b uniform and a >= 0:   k = gcd(c(a), d(a), b|1)
    remainder     a%b, b uniform and a >= 0:   c = gcd(c(a), d(a), b|1)
    compare       a < b, b equal in groups:    k = gcd(c(a), d(a), b|1, k(b)); also a >= b, b > a, b <= a
    otherwise     k = gcd of the operands' k

`non_negative` matters because division truncates towards zero: -4 … -1 over 4 is -1, 0, 0, 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import TypeAlias

from tilewright.analysis.axis_lattice import (
    UNBOUNDED,
    AxisInfo,
    axes,
    join,
    nothing_known,
    of_constant,
    power_of_two,
    unit_of,
)
from tilewright.ir.attributes import DenseArray, Keyword, Number
from tilewright.ir.core import Op

Transfer: TypeAlias = Callable[[Op, Sequence[AxisInfo]], AxisInfo]


def _constancy(operands: Sequence[AxisInfo], axis: int) -> int:
    return gcd(*(a.constancy[axis] for a in operands))


def elementwise(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Equal operands give equal results."""
    shape = axes(op.result.type)
    if any(len(a.constancy) != len(shape) for a in operands):
        return nothing_known(op.result.type)
    ones = (1,) * len(shape)
    return AxisInfo(ones, ones, tuple(_constancy(operands, axis) for axis in range(len(shape))))


def _add(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    unit = unit_of(op.result.type)
    contiguity, divisibility, constancy = [], [], []
    for axis in range(len(axes(op.result.type))):
        group = gcd(a.contiguity[axis], b.constancy[axis])
        if op.name != "arith.subi":
            group = max(group, gcd(a.constancy[axis], b.contiguity[axis]))
        contiguity.append(group)
        divisibility.append(gcd(a.divisor(axis, group, unit), b.divisor(axis, group) * unit))
        constancy.append(gcd(a.constancy[axis], b.constancy[axis]))
    non_negative = op.name == "arith.addi" and a.non_negative and b.non_negative
    return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy), None, non_negative)


def _multiply(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    for factor, other in ((b, a), (a, b)):
        if factor.constant == 1:
            return other
    rank = range(len(axes(op.result.type)))
    return AxisInfo(
        (1,) * len(rank),
        tuple(min(a.divisor(axis) * b.divisor(axis), UNBOUNDED) for axis in rank),
        tuple(_constancy(operands, axis) for axis in rank),
        None,
        a.non_negative and b.non_negative,
    )


def _shift_left(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    result = elementwise(op, operands)
    if b.constant is None or b.constant not in range(op.result.type.bits):
        return result
    divisibility = tuple(min(a.divisor(axis) << b.constant, UNBOUNDED) for axis in range(len(result.contiguity)))
    return result._replace(divisibility=divisibility, non_negative=a.non_negative)


def _quotient(op: Op, a: AxisInfo, divisor: AxisInfo, exact: int | None) -> AxisInfo:
    """a / divisor rounded down; `exact` is the divisor if it is a known power of two."""
    shape = axes(op.result.type)
    constancy, divisibility = [], []
    for axis, extent in enumerate(shape):
        same = gcd(a.constancy[axis], divisor.constancy[axis])
        if divisor.constancy[axis] == extent:
            same = max(same, gcd(a.contiguity[axis], a.divisibility[axis], divisor.divisor(axis)))
        constancy.append(same)
        divisibility.append(max(1, a.divisor(axis) // exact) if exact else 1)
    non_negative = a.non_negative and divisor.non_negative
    return AxisInfo((1,) * len(shape), tuple(divisibility), tuple(constancy), None, non_negative)


def _divide(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    if b.constant == 1:
        return a
    if op.name == "arith.divsi" and not a.non_negative:
        return elementwise(op, operands)
    exact = b.constant if b.constant is not None and b.constant > 0 and b.constant & (b.constant - 1) == 0 else None
    return _quotient(op, a, b, exact)


def _shift_right(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    if b.constant is None or b.constant not in range(op.result.type.bits - 1):
        return elementwise(op, operands)
    return _quotient(op, a, of_constant(1 << b.constant, op.result.type), 1 << b.constant)


def _remainder(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    if op.name == "arith.remsi" and not a.non_negative:
        result = elementwise(op, operands)
        divisibility = [gcd(a.divisor(axis), b.divisor(axis)) for axis in range(len(a.contiguity))]
        return result._replace(divisibility=tuple(divisibility))
    contiguity, divisibility = [], []
    for axis, extent in enumerate(axes(op.result.type)):
        uniform = b.constancy[axis] == extent
        group = gcd(a.contiguity[axis], a.divisibility[axis], b.divisor(axis)) if uniform else 1
        contiguity.append(group)
        divisibility.append(gcd(a.divisor(axis, group), b.divisor(axis)))
    constancy = tuple(_constancy(operands, axis) for axis in range(len(contiguity)))
    return AxisInfo(tuple(contiguity), tuple(divisibility), constancy, None, a.non_negative)


def _compare(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    predicate = op.attributes["predicate"]
    assert isinstance(predicate, Keyword), "a comparison has a predicate"
    result = elementwise(op, operands)
    if predicate.name[1:] in ("lt", "ge"):
        counting, fixed = operands
    elif predicate.name[1:] in ("gt", "le"):
        fixed, counting = operands
    else:
        return result
    constancy = tuple(
        max(same, gcd(counting.contiguity[i], counting.divisibility[i], fixed.divisor(i), fixed.constancy[i]))
        for i, same in enumerate(result.constancy)
    )
    return result._replace(constancy=constancy)


def _extremum(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """min(x + i, y + i) = min(x, y) + i."""
    a, b = operands
    result = join(a, b, op.result.type)
    either = op.name == "arith.maxsi" and (a.non_negative or b.non_negative)
    return result._replace(constant=None, non_negative=result.non_negative or either)


def _select(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    condition, a, b = operands
    result = join(a, b, op.result.type)
    if len(condition.constancy) != len(result.constancy):
        condition = condition._replace(constancy=axes(op.result.type))
    unit = unit_of(op.result.type)
    contiguity = tuple(map(gcd, result.contiguity, condition.constancy))
    divisibility = tuple(result.divisor(axis, group, unit) for axis, group in enumerate(contiguity))
    constancy = tuple(map(gcd, result.constancy, condition.constancy))
    return result._replace(contiguity=contiguity, divisibility=divisibility, constancy=constancy)


def _and(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    result = elementwise(op, operands)
    divisibility = tuple(max(a.divisor(axis), b.divisor(axis)) for axis in range(len(result.contiguity)))
    return result._replace(divisibility=divisibility, non_negative=a.non_negative or b.non_negative)


def _or(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a, b = operands
    result = elementwise(op, operands)
    divisibility = tuple(gcd(a.divisor(axis), b.divisor(axis)) for axis in range(len(result.contiguity)))
    return result._replace(divisibility=divisibility, non_negative=a.non_negative and b.non_negative)


def _extend_signed(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Also index casts; `true : i1` becomes -1."""
    return elementwise(op, operands) if op.operands[0].type.scalar.bits == 1 else operands[0]


def _extend_unsigned(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a = operands[0]
    return (a if a.non_negative else _unbroken(a))._replace(constant=None, non_negative=True)


def _truncate(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    return _unbroken(operands[0])._replace(constant=None, non_negative=False)


def _unbroken(a: AxisInfo) -> AxisInfo:
    """Groups that start at a multiple of their length, so that wrapping around cannot happen inside."""
    contiguity = tuple(gcd(c, d) for c, d in zip(a.contiguity, a.divisibility, strict=True))
    return a._replace(
        contiguity=contiguity, divisibility=tuple(a.divisor(axis, group) for axis, group in enumerate(contiguity))
    )


def _reinterpret(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Integers as pointers and back: the step between neighbours changes its meaning, the bytes stay."""
    a, unit = operands[0], unit_of(op.operands[0].type)
    divisibility = tuple(a.divisor(axis, unit=unit) for axis in range(len(a.contiguity)))
    return AxisInfo((1,) * len(divisibility), divisibility, a.constancy)


def _constant(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    value = op.attributes["value"]
    if isinstance(value, Number) and isinstance(value.value, int):
        return of_constant(int(value.value), op.result.type)
    known = nothing_known(op.result.type)
    return known._replace(constancy=axes(op.result.type)) if isinstance(value, Number) else known


def _make_range(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    start = op.attributes["start"]
    assert isinstance(start, Number), "make_range has a start"
    first = int(start.value)
    return AxisInfo(axes(op.result.type), (power_of_two(first),), (1,), None, first >= 0)


def _program_id(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    return nothing_known(op.result.type, non_negative=True)


def _splat(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    shape = axes(op.result.type)
    a = operands[0]
    return a._replace(contiguity=(1,) * len(shape), divisibility=(a.divisibility[0],) * len(shape), constancy=shape)


def _expand_dims(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    axis_attribute = op.attributes["axis"]
    assert isinstance(axis_attribute, Number), "expand_dims has an axis"
    a, axis = operands[0], int(axis_attribute.value)
    return a._replace(
        contiguity=(*a.contiguity[:axis], 1, *a.contiguity[axis:]),
        divisibility=(*a.divisibility[:axis], a.common_divisor(unit_of(op.result.type)), *a.divisibility[axis:]),
        constancy=(*a.constancy[:axis], 1, *a.constancy[axis:]),
    )


def _broadcast(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    a = operands[0]
    source, target = axes(op.operands[0].type), axes(op.result.type)
    return a._replace(
        constancy=tuple(new if new != old else k for old, new, k in zip(source, target, a.constancy, strict=True))
    )


def _trans(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    order = op.attributes["order"]
    assert isinstance(order, DenseArray), "trans has an order"
    a = operands[0]
    contiguity, divisibility, constancy = (tuple(part[axis] for axis in order.values) for part in a[:3])
    return a._replace(contiguity=contiguity, divisibility=divisibility, constancy=constancy)


def _reshape(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Axes of extent 1 come and go; any other change of shape keeps only what holds everywhere."""
    a, source, target = operands[0], axes(op.operands[0].type), axes(op.result.type)
    everywhere = a.common_divisor(unit_of(op.result.type))
    ones = (1,) * len(target)
    if a.constancy == source or prod(target) == 1:
        return AxisInfo(ones, (everywhere,) * len(target), target, a.constant, a.non_negative)
    kept = [axis for axis, extent in enumerate(source) if extent != 1]
    if [source[axis] for axis in kept] != [extent for extent in target if extent != 1] or op.attributes.get(
        "allow_reorder"
    ):
        return AxisInfo(ones, (everywhere,) * len(target), ones, a.constant, a.non_negative)
    remaining = iter(kept)
    columns = [(1, everywhere, 1)] * len(target)
    for position, extent in enumerate(target):
        if extent != 1:
            axis = next(remaining)
            columns[position] = (a.contiguity[axis], a.divisibility[axis], a.constancy[axis])
    contiguity, divisibility, constancy = zip(*columns, strict=True)
    return AxisInfo(contiguity, divisibility, constancy, a.constant, a.non_negative)


def _load(op: Op, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Equal addresses hold equal values, unless somebody else writes meanwhile."""
    return nothing_known(op.result.type) if op.attributes.get("isVolatile") else elementwise(op, operands)


TRANSFERS: dict[str, Transfer] = {
    "arith.constant": _constant,
    "arith.addi": _add,
    "arith.subi": _add,
    "arith.muli": _multiply,
    "arith.shli": _shift_left,
    "arith.divsi": _divide,
    "arith.divui": _divide,
    "arith.shrsi": _shift_right,
    "arith.shrui": _shift_right,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.cmpi": _compare,
    "arith.minsi": _extremum,
    "arith.maxsi": _extremum,
    "arith.select": _select,
    "arith.andi": _and,
    "arith.ori": _or,
    "arith.xori": _or,
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.trunci": _truncate,
    "arith.index_cast": _extend_signed,
    "tt.addptr": _add,
    "tt.int_to_ptr": _reinterpret,
    "tt.ptr_to_int": _reinterpret,
    "tt.bitcast": _reinterpret,
    "tt.make_range": _make_range,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _program_id,
    "tt.splat": _splat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.trans": _trans,
    "tt.reshape": _reshape,
    "tt.load": _load,
}
