"""Along which axes of a tile of pointers the address moves by one element per step, and whether it comes back."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.alignment import axis_of_new
from tilewright.backends.cpu.costs import LOADS, ROOTS, is_tile
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value

CASTS = {"arith.extsi", "arith.extui", "arith.index_cast", "arith.remsi", "arith.trunci", "tt.bitcast", "tt.broadcast"}
"""Ops that keep the steps; a remainder does so where it does not wrap."""

Steps = dict[int, int | None]
"""For each axis that the value depends on: how far a step goes, in elements; None where only the launch tells."""


def lies_transposed(pointer: Value) -> bool:
    """Are neighbours of a 2-D tile neighbours in memory along axis 0, and not along axis 1?"""
    steps = _steps(pointer)
    return steps.get(0) == 1 and steps.get(1) != 1


def may_repeat(pointer: Value) -> bool:
    """May two elements of a tile of pointers be at one address, for all that is known before the launch?"""
    if not is_affine(pointer):
        return True
    steps, reach = _steps(pointer), 0
    long = [(steps.get(axis, 0), extent) for axis, extent in enumerate(pointer.type.shape or ()) if extent > 1]
    for step, extent in sorted((abs(step), extent) for step, extent in long if step is not None):
        if step <= reach:
            return True
        reach += step * (extent - 1)
    return any(step is None for step, _ in long)


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
    return dict.fromkeys(range(len(value.type.shape or ())))


def _same(op: Op) -> Steps:
    return _steps(op.operands[0])


def _expanded(op: Op) -> Steps:
    new = axis_of_new(op)
    return {axis + (axis >= new): one for axis, one in _same(op).items()}


def _summed(op: Op) -> Steps:
    left, right = (_steps(v) for v in op.operands)
    return {axis: _sum(left.get(axis, 0), right.get(axis, 0)) for axis in left | right}


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _subtracted(op: Op) -> Steps:
    left, right = (_steps(v) for v in op.operands)
    back = {axis: None if step is None else -step for axis, step in right.items()}
    return {axis: _sum(left.get(axis, 0), back.get(axis, 0)) for axis in left | right}


def _scaled(op: Op) -> Steps:
    left, right = op.operands
    if _number(left) is not None:
        left, right = right, left
    factor = _number(right)
    return {
        axis: None if factor is None or step is None else step * factor
        for axis, step in (_steps(left) | ({} if factor is not None else _steps(right))).items()
    }


def _number(value: Value) -> int | None:
    """The number that a constant tile repeats."""
    op = value.op
    number = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    return int(number.value) if isinstance(number, Number) else None


_RULES: dict[str, Callable[[Op], Steps]] = {
    "arith.addi": _summed,
    "arith.constant": lambda op: {},
    "arith.muli": _scaled,
    "arith.subi": _subtracted,
    "tt.addptr": _summed,
    "tt.expand_dims": _expanded,
    "tt.make_range": lambda op: {0: 1},
    "tt.splat": lambda op: {},
    **dict.fromkeys(CASTS, _same),
}
