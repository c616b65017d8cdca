"""Along which axes of a tile of pointers the address moves by one element per step."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.backends.cpu.alignment import axis_of_new
from tilewright.backends.cpu.costs import LOADS, ROOTS, is_tile
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value

CASTS = {"arith.extsi", "arith.extui", "arith.index_cast", "arith.remsi", "arith.trunci", "tt.bitcast", "tt.broadcast"}
"""Ops that keep the steps; a remainder does so where it does not wrap."""

Steps = dict[int, bool]
"""For each axis that the value depends on: is the step exactly one?"""


def lies_transposed(pointer: Value) -> bool:
    """Are neighbours of a 2-D tile neighbours in memory along axis 0, and not along axis 1?"""
    steps = _steps(pointer)
    return steps.get(0, False) and not steps.get(1, False)


def lies_across(value: Value) -> bool:
    """Are neighbours in memory neighbours along axis 0, for most of the elements that a 2-D tile is computed from?"""
    return _votes(value, set()) > 0


def _votes(value: Value, met: set[Value]) -> int:
    """Elements read from memory with their neighbours along axis 0, less those along axis 1."""
    op = value.op
    if op is None or value in met or not is_tile(value) or op.name in ROOTS:
        return 0
    met.add(value)
    shape = value.type.shape or ()
    if op.name in LOADS:
        across = op.name == "tt.load" and lies_transposed(op.operands[0])
        return (prod(shape) if across else -prod(shape)) if len(shape) == 2 else 0
    votes = sum(_votes(operand, met) for operand in op.operands)
    return -votes if op.name == "tt.trans" else votes


def _steps(value: Value) -> Steps:
    op = value.op
    if op is None or not is_tile(value):
        return {}
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(op)
    return dict.fromkeys(range(len(value.type.shape or ())), False)


def _same(op: Op) -> Steps:
    return _steps(op.operands[0])


def _expanded(op: Op) -> Steps:
    new = axis_of_new(op)
    return {axis + (axis >= new): one for axis, one in _same(op).items()}


def _summed(op: Op) -> Steps:
    left, right = (_steps(v) for v in op.operands)
    both = left.keys() & right.keys()
    return {axis: one and axis not in both for axis, one in (left | right).items()}


def _scaled(op: Op) -> Steps:
    left, right = op.operands
    if _is_one(left) or _is_one(right):
        return _steps(right if _is_one(left) else left)
    return dict.fromkeys(_steps(left) | _steps(right), False)


def _is_one(value: Value) -> bool:
    op = value.op
    if op is None or op.name != "arith.constant":
        return False
    number = op.attributes["value"]
    return isinstance(number, Number) and number.value == 1


_RULES: dict[str, Callable[[Op], Steps]] = {
    "arith.addi": _summed,
    "arith.constant": lambda op: {},
    "arith.muli": _scaled,
    "tt.addptr": _summed,
    "tt.expand_dims": _expanded,
    "tt.make_range": lambda op: {0: True},
    "tt.splat": lambda op: {},
    **dict.fromkeys(CASTS, _same),
}
