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

Ops that rearrange tiles divide axes: each axis of the result is the part of the operand's axis that contains its
stride:

    tt.reshape, row-major, in: 16 elements that count up    ->    4x4: contiguity [1, 4], each row counts up
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import gcd
from operator import mul
from typing import Any, TypeAlias

from tilewright.analysis.axis_lattice import (
    UNBOUNDED,
    AxisInfo,
    axes,
    common_divisibility,
    nothing_known,
    of_constant,
    power_of_two,
    unit_of,
    unused,
)
from tilewright.dialects.arith import CompareIntegers, Constant, Select
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Reshape, Splat, Trans
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op


def _splat(op: Splat, operands: Sequence[AxisInfo]) -> AxisInfo:
    shape = axes(op.result.type)
    (a,) = operands
    return AxisInfo((1,) * len(shape), (a.divisibility[0],) * len(shape), shape, a.constant)


def _expand_dims(op: ExpandDims, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,), axis = operands, op.axis
    everywhere = gcd(*(a.element_divisor(i) for i in range(len(a.contiguity))))
    if a.constant is not None:
        everywhere = power_of_two(a.constant)
    return AxisInfo(
        (*a.contiguity[:axis], 1, *a.contiguity[axis:]),
        (*a.divisibility[:axis], everywhere, *a.divisibility[axis:]),
        (*a.constancy[:axis], 1, *a.constancy[axis:]),
        a.constant,
    )


def _broadcast(op: Broadcast, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,) = operands
    source, target = axes(op.source.type), axes(op.result.type)
    return a._replace(
        contiguity=tuple(1 if old == 1 else c for old, c in zip(source, a.contiguity, strict=True)),
        constancy=tuple(new if old == 1 else k for old, new, k in zip(source, target, a.constancy, strict=True)),
    )


def _trans(op: Trans, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,), order = operands, op.order
    contiguity, divisibility, constancy = (tuple(part[axis] for axis in order) for part in a[:3])
    return AxisInfo(contiguity, divisibility, constancy, a.constant)


def _strides(shape: Sequence[int]) -> list[int]:
    """The distances between neighbours along each axis in row-major order: [12, 4, 1] for 2x3x4."""
    return list(accumulate(reversed(shape[1:]), mul, initial=1))[::-1]


def _reshape(op: Reshape, operands: Sequence[AxisInfo]) -> AxisInfo:
    (a,), source, target = operands, axes(op.source.type), axes(op.result.type)
    if a.constant is not None:
        return of_constant(a.constant, op.result.type)
    if op.allow_reorder:
        return nothing_known(op.result.type)
    strides = _strides(source)
    columns = []
    for extent, stride in zip(target, _strides(target), strict=True):
        inside = next((i for i, start in enumerate(strides) if start <= stride < start * source[i]), 0)
        columns.append(_part_of(a, source, inside, stride // strides[inside], extent))
    contiguity, divisibility, constancy = zip(*columns, strict=True)
    return AxisInfo(contiguity, divisibility, constancy)


def _part_of(a: AxisInfo, source: Sequence[int], axis: int, step: int, extent: int) -> tuple[int, int, int]:
    """The axis that takes `extent` steps of `step` elements along `axis`, and on along the axes outside of it."""
    contiguity, divisibility, constancy = a.contiguity[axis], a.divisibility[axis], a.constancy[axis]
    if contiguity > 1:
        if step > 1:
            return 1, 1, 1
        kept = min(contiguity, extent)
        return kept, divisibility if kept == contiguity else min(divisibility, kept), 1
    if step > constancy:
        return 1, divisibility, 1
    equal = min(extent, constancy // step)
    if constancy == source[axis]:
        equal *= _equal_outside(a, source, axis, extent // equal)
    return 1, divisibility, equal


def _equal_outside(a: AxisInfo, source: Sequence[int], axis: int, steps: int) -> int:
    """The number of equal ones among `steps` whole axes further out."""
    equal = 1
    for outer in reversed(range(axis)):
        piece = min(source[outer], steps)
        same = min(a.constancy[outer], piece)
        equal *= same
        steps //= piece
        if same < piece:
            break
    return equal


Transfer: TypeAlias = Callable[[Any, Sequence[AxisInfo]], AxisInfo]
"""A transfer function: it takes an op of the class that its row names, and what is known of the operands."""
SHAPE_TRANSFERS: dict[str, Transfer] = {
    "tt.splat": _splat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.trans": _trans,
    "tt.reshape": _reshape,
}


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


def _read_constants(op: Op, operands: Sequence[AxisInfo]) -> tuple[int, int] | None:
    """The constants as the op reads them: `arith.divui` and its like take -8 of 32 bits for 2**32 - 8."""
    known = _constants(operands)
    if known is None or not op.name.endswith("ui"):
        return known
    modulus = 1 << op.result.type.scalar.bits
    return known[0] % modulus, known[1] % modulus


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
    known = _read_constants(op, operands)
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
    known = _read_constants(op, operands)
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
    known = _read_constants(op, operands)
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
    known = _read_constants(op, operands)
    if known is not None:
        return of_constant(known[0] << known[1] if left else known[0] >> known[1], op.result.type)
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


def _make_range(op: MakeRange, operands: Sequence[AxisInfo]) -> AxisInfo:
    first = op.start
    return AxisInfo(axes(op.result.type), (first & -first or 1 << 30,), (1,))


def _load(op: Load, operands: Sequence[AxisInfo]) -> AxisInfo:
    """Equal addresses hold equal values, without writes in between; where the mask is false, `other` counts."""
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
    "ub.poison": lambda op, operands: unused(op.result.type),
}
