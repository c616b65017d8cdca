"""Strides of tiles of pointers: along which axes the address moves by one element per step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, TypeAlias

from tilewright.backends.cpu.alignment import axis_of_new
from tilewright.backends.cpu.costs import ACCESSES, LOADS, is_sink, is_tile, makers
from tilewright.dialects.arith import Binary, Unary
from tilewright.dialects.cpu import Within
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_memory import AddPtr, Load
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat, Trans
from tilewright.ir.core import Op, Value
from tilewright.transforms.matching import integer_of

Step: TypeAlias = int | Value | None
"""How far a step along an axis goes, in elements: a number, a scalar that only the launch knows, None for others."""
Steps = dict[int, Step]
"""The step along each axis that a value depends on."""
Known = dict[Value, Steps]

ITERATION = -1
"""The key of how far the next iteration of a loop is."""

FARTHEST = 100
"""Max number of ops through which steps are followed."""


def lies_transposed(pointer: Value) -> bool:
    """Whether neighbours of a 2-D tile are neighbours in memory along axis 0, and not along axis 1."""
    steps = _steps(pointer, {})
    return steps.get(0) == 1 and steps.get(1) != 1


def steps_along(tile: Value, known: Known | None = None) -> Steps:
    """How far a step along each axis goes that a tile depends on; where it wraps is disregarded."""
    return _steps(tile, {} if known is None else known)


def lies_across(value: Value) -> bool:
    """Whether neighbours in memory are neighbours along axis 0, for most elements that a 2-D tile is computed from."""
    return _votes(value, set()) > 0


def steps_of_iteration(ops: Iterable[Op], counters: Iterable[Value], others: Iterable[Value] = ()) -> Known:
    """The steps of the scalars in the body of a loop, in order: how much more they are in the next iteration.

    Args:
        ops: the body.
        counters: the scalars that are one more, or some elements more, in the next iteration.
        others: the scalars that are anything in the next iteration.
    """
    known: Known = {counter: {ITERATION: 1} for counter in counters}
    known.update({other: {ITERATION: None} for other in others})
    for op in ops:
        if op.results and not is_tile(op.result):
            rule = _RULES.get(op.name)
            known[op.result] = {ITERATION: None} if rule is None else rule(op, known)
    return known


def goes_on(pointer: Value, known: Known) -> bool:
    """Whether a tile of pointers goes on along its last axis in the next iteration of a loop, or stays where it is.

    Neighbours along another axis are not neighbours in memory, unless those along the last one are, too.
    """
    if len(makers(pointer)) > FARTHEST:
        return False
    steps = _steps(pointer, known)
    last = len(pointer.type.shape or ()) - 1
    iteration, along = steps.get(ITERATION, 0), steps.get(last, 0)
    is_across = along != 1 and any(step == 1 for axis, step in steps.items() if axis not in (last, ITERATION))
    return not is_across and (iteration == 0 or (iteration is not None and iteration == along))


def has_own_rows(pointer: Value, known: Known, shape: tuple[int, ...] | None) -> bool:
    """Whether a tile of pointers has a piece of memory for each row of a `shape`, and in each iteration another one.

    A piece that several rows share would be read again for each of them.
    """
    if pointer.type.shape != shape or not shape or sum(1 for _ in makers(pointer)) > FARTHEST:
        return False
    steps = _steps(pointer, known)
    *earlier, along = (steps.get(axis, 0) if extent > 1 else ITERATION for axis, extent in enumerate(shape))
    return along == 1 and not {0, 1, None} & {*earlier} and steps.get(ITERATION, 0) != 0


def _votes(value: Value, met: set[Value]) -> int:
    """Elements read from memory with their neighbours along axis 0, less those along axis 1."""
    op = value.op
    if op is None or value in met or not is_tile(value) or is_sink(op):
        return 0
    met.add(value)
    shape = value.type.shape or ()
    if isinstance(op, LOADS):
        across = isinstance(op, Load) and lies_transposed(op.pointer)
        return (prod(shape) if across else -prod(shape)) if len(shape) == 2 else 0
    votes = sum(_votes(operand, met) for operand in op.operands)
    return -votes if isinstance(op, Trans) else votes


def run_time_strides(op: Op) -> list[Value]:
    """The scalars that are the distance of neighbours along the last axis, for the loads and stores in `op`.

    They are arguments, mostly, that Triton does not specialise (`stride: int`), and which are 1 nearly always.
    """
    return run_time_strides_of(op.ops_of(ACCESSES))


def run_time_strides_of(accesses: Iterable[PointerAccess]) -> list[Value]:
    """The scalars that are the distance of neighbours along the last axis, for some loads and stores."""
    known: Known = {}
    steps = [_last_step(access.pointer, known) for access in accesses]
    return list(dict.fromkeys(step for step in steps if isinstance(step, Value)))


def _last_step(pointer: Value, known: Known) -> Step:
    """The step along the last axis; where an earlier one has neighbours already, it does not matter."""
    shape = pointer.type.shape
    if not shape or shape[-1] == 1:
        return None
    steps = _steps(pointer, known)
    last = len(shape) - 1
    return None if any(step == 1 for axis, step in steps.items() if axis != last) else steps.get(last)


def _steps(value: Value, known: Known) -> Steps:
    op = value.op
    if value not in known:
        if op is None or not is_tile(value):
            return {}
        rule = _RULES.get(op.name)
        long = [axis for axis, extent in enumerate(value.type.shape or ()) if extent > 1]
        known[value] = dict.fromkeys(long) if rule is None else rule(op, known)
    return known[value]


def _none(op: Op, known: Known) -> Steps:
    return {}


def _splat(op: Splat, known: Known) -> Steps:
    return _steps(op.source, known)


def _range(op: Op, known: Known) -> Steps:
    return {0: 1}


def _cast(op: Unary, known: Known) -> Steps:
    return _steps(op.operand, known)


def _within(op: Within, known: Known) -> Steps:
    return _steps(op.tile, known)


def _broadcast(op: Broadcast, known: Known) -> Steps:
    return _steps(op.source, known)


def _remainder(op: Binary, known: Known) -> Steps:
    """The steps of the dividend; where it wraps is disregarded."""
    return _steps(op.lhs, known)


def _quotient(op: Binary, known: Known) -> Steps:
    """No steps at all; where the quotient grows is disregarded."""
    return dict.fromkeys(_steps(op.lhs, known), 0)


def _expanded(op: ExpandDims, known: Known) -> Steps:
    new = axis_of_new(op)
    return {axis + (axis >= new): one for axis, one in _steps(op.source, known).items()}


def _summed(op: Binary | AddPtr, known: Known) -> Steps:
    left, right = (_steps(v, known) for v in op.operands)
    return {axis: _sum(left.get(axis, 0), right.get(axis, 0)) for axis in left | right}


def _sum(a: Step, b: Step) -> Step:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return a if b == 0 else b if a == 0 else None


def _subtracted(op: Binary, known: Known) -> Steps:
    left, right = (_steps(v, known) for v in op.operands)
    back: Steps = {axis: -step if isinstance(step, int) else None for axis, step in right.items()}
    return {axis: _sum(left.get(axis, 0), back.get(axis, 0)) for axis in left | right}


def _scaled(op: Binary, known: Known) -> Steps:
    left, right = op.operands
    if uniform_number(left) is not None:
        left, right = right, left
    factor = uniform_number(right)
    if factor is None:
        return dict.fromkeys(_steps(left, known) | _steps(right, known))
    return {axis: _product(step, factor) for axis, step in _steps(left, known).items()}


def _product(step: Step, factor: int | Value) -> Step:
    if isinstance(step, int) and isinstance(factor, int):
        return step * factor
    if step == 0:
        return 0
    return factor if step == 1 else step if factor == 1 else None


def uniform_number(tile: Value) -> int | Value | None:
    """The number that all elements of a tile are, or the scalar that it repeats; None if they differ."""
    number = integer_of(tile)
    if number is not None:
        return number
    op = tile.op
    while isinstance(op, (Broadcast, ExpandDims)):
        op = op.source.op
    if not isinstance(op, Splat):
        return None
    number = integer_of(op.source)  # text that no pass has folded
    return op.source if number is None else number


_RULES: dict[str, Callable[[Any, Known], Steps]] = {
    "arith.addi": _summed,
    "arith.constant": _none,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.extsi": _cast,
    "arith.extui": _cast,
    "arith.index_cast": _cast,
    "arith.muli": _scaled,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.subi": _subtracted,
    "arith.trunci": _cast,
    "cpu.within": _within,
    "tt.addptr": _summed,
    "tt.bitcast": _cast,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expanded,
    "tt.make_range": _range,
    "tt.splat": _splat,
}
