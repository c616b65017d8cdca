"""Strides of tiles of pointers: along which axes the address moves by one element per step."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tilewright.backends.cpu.alignment import axis_of_new
from tilewright.backends.cpu.costs import LOADS, SINKS, is_tile
from tilewright.dialects.arith import Binary, Unary
from tilewright.dialects.tt_memory import AddPtr, Load
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Trans
from tilewright.ir.core import Op, Value
from tilewright.transforms.matching import integer_of

Steps = dict[int, int | None]
"""For each axis that the value depends on: how far a step goes, in elements; None where only the launch tells."""


def lies_transposed(pointer: Value) -> bool:
    """Whether neighbours of a 2-D tile are neighbours in memory along axis 0, and not along axis 1."""
    steps = _steps(pointer)
    return steps.get(0) == 1 and steps.get(1) != 1


def lies_across(value: Value) -> bool:
    """Whether neighbours in memory are neighbours along axis 0, for most elements that a 2-D tile is computed from."""
    return _votes(value, set()) > 0


def _votes(value: Value, met: set[Value]) -> int:
    """Elements read from memory with their neighbours along axis 0, less those along axis 1."""
    op = value.op
    if op is None or value in met or not is_tile(value) or isinstance(op, SINKS):
        return 0
    met.add(value)
    shape = value.type.shape or ()
    if isinstance(op, LOADS):
        across = isinstance(op, Load) and lies_transposed(op.pointer)
        return (prod(shape) if across else -prod(shape)) if len(shape) == 2 else 0
    votes = sum(_votes(operand, met) for operand in op.operands)
    return -votes if isinstance(op, Trans) else votes


def _steps(value: Value) -> Steps:
    op = value.op
    if op is None or not is_tile(value):
        return {}
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op)
    return dict.fromkeys(range(len(value.type.shape or ())))


def _none(op: Op) -> Steps:
    return {}


def _range(op: Op) -> Steps:
    return {0: 1}


def _cast(op: Unary) -> Steps:
    return _steps(op.operand)


def _broadcast(op: Broadcast) -> Steps:
    return _steps(op.source)


def _remainder(op: Binary) -> Steps:
    """The steps of the dividend; where it wraps is disregarded."""
    return _steps(op.lhs)


def _expanded(op: ExpandDims) -> Steps:
    new = axis_of_new(op)
    return {axis + (axis >= new): one for axis, one in _steps(op.source).items()}


def _summed(op: Binary | AddPtr) -> Steps:
    left, right = (_steps(v) for v in op.operands)
    return {axis: _sum(left.get(axis, 0), right.get(axis, 0)) for axis in left | right}


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _subtracted(op: Binary) -> Steps:
    left, right = (_steps(v) for v in op.operands)
    back = {axis: None if step is None else -step for axis, step in right.items()}
    return {axis: _sum(left.get(axis, 0), back.get(axis, 0)) for axis in left | right}


def _scaled(op: Binary) -> Steps:
    left, right = op.operands
    if integer_of(left) is not None:
        left, right = right, left
    factor = integer_of(right)
    return {
        axis: None if factor is None or step is None else step * factor
        for axis, step in (_steps(left) | ({} if factor is not None else _steps(right))).items()
    }


_RULES: dict[str, Callable[[Any], Steps]] = {
    "arith.addi": _summed,
    "arith.constant": _none,
    "arith.extsi": _cast,
    "arith.extui": _cast,
    "arith.index_cast": _cast,
    "arith.muli": _scaled,
    "arith.remsi": _remainder,
    "arith.subi": _subtracted,
    "arith.trunci": _cast,
    "tt.addptr": _summed,
    "tt.bitcast": _cast,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expanded,
    "tt.make_range": _range,
    "tt.splat": _none,
}
