"""Axis info of ops that rearrange tiles: the transfer functions of `axis_info` for `tt.splat`, `tt.reshape`, ….

    tt.reshape, row-major, in: 16 elements that count up    ->    4x4: contiguity [1, 4], each row counts up

An axis of the result is a part of the axis of the operand inside of which its stride lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import gcd
from operator import mul
from typing import Any, TypeAlias

from tilewright.analysis.axis_lattice import AxisInfo, axes, nothing_known, of_constant, power_of_two
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Reshape, Splat, Trans


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
