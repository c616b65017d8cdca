"""Tiles the other way round where memory lies along another axis than their last, as in sums over the rows of a matrix.

    %x = tt.load %p : tensor<64x4x!tt.ptr<f32>>                 %x = tt.load %p : tensor<4x64x!tt.ptr<f32>>
    %s = tt.reduce(%x) {axis = 1} : … -> tensor<64xf32>    →    %s = tt.reduce(%x) {axis = 0} : … -> tensor<64xf32>

Vectors run along the last axis. Where neighbours of that axis lie far apart in memory, each lane is a load of its own.
All tiles of two axes change, or of three, so no element has to be moved: every op of a function has to be one that does
not care. A store of which two elements might go to one address does: the last one stays there.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import TypeAlias

from tilewright.analysis.axis_info import HINTS
from tilewright.backends.cpu.strides import steps_along
from tilewright.dialects.arith import Constant
from tilewright.dialects.tt_elementwise import InlineAsm
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Fold, MapElementwise, Reduce
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.attributes import Attribute, Dense, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import Type, i32, with_shape
from tilewright.transforms.functions import functions_of

Axes: TypeAlias = tuple[int, ...]
"""Axes of a tile in another order."""

TURNED = (Broadcast, Constant, ExpandDims, Fold, Load, Splat, Store)
"""Ops that give the same elements where their tiles are the other way round and their `axis` is the other one."""
IN_ORDER = (InlineAsm, MapElementwise)
"""Ops on elements that may take several neighbours at a time."""
CONTROL = ("scf.", "cf.")
"""Dialects whose ops pass on what they are given."""
FEWEST_NEIGHBOURS = 8
"""Min extent of the axis along which memory lies: half a vector."""
MOST_AXES = 3
"""Max number of axes of a tile that is turned."""


def transpose_tiles(module: Op) -> bool:
    """Turn the tiles of each function whose accesses go along another axis; returns whether there is one."""
    changed = False
    for function in functions_of(module):
        order = _better_order(function)
        ops = [op for op in function.walk() if op is not function]
        if order and all(_may_turn(op, order) for op in ops):
            _turn(ops, order)
            changed = True
    return changed


def _better_order(function: Func) -> Axes:
    """All axes of the tiles that have most, the one last along which memory lies; () where it is the last one already.

    It lies along an axis where some of the largest accesses do, and none along the last. Smaller ones, such as a number
    for each row, count where no larger one lies along an axis.
    """
    pointers = [op.pointer for op in function.ops_of((Load, Store)) if len(_shape(op.pointer)) > 1]
    rank = max((len(_shape(pointer)) for pointer in pointers), default=0)
    along: dict[int, set[int]] = {}
    for pointer in pointers:
        if len(_shape(pointer)) == rank:
            along.setdefault(prod(_shape(pointer)), set()).update(_axes_along(pointer))
    most = next((along[size] for size in sorted(along, reverse=True) if along[size]), set())
    if len(most) != 1 or rank > MOST_AXES:
        return ()
    (axis,) = most
    others = [each for each in range(rank) if each != axis]
    return () if axis == rank - 1 else (*others, axis)


def _axes_along(pointer: Value) -> list[int]:
    """The axes whose neighbours are neighbours in memory, the last one however short it is."""
    shape, steps = _shape(pointer), steps_along(pointer)
    fewest = [FEWEST_NEIGHBOURS] * (len(shape) - 1) + [2]
    return [axis for axis, extent in enumerate(shape) if steps.get(axis) == 1 and extent >= fewest[axis]]


def _may_turn(op: Op, order: Axes) -> bool:
    """Whether an op has no tile with the axes of `order`, or does not care which of them is the first."""
    ranks = {len(_shape(value)) for value in (*op.operands, *op.results)}
    if max(ranks, default=0) < len(order):
        return True
    has_elements = isinstance(op, Constant) and isinstance(op.value, Dense)
    if max(ranks) > len(order) or has_elements or isinstance(op, IN_ORDER):
        return False
    if isinstance(op, (ExpandDims, Fold)):
        return _new_axis(op, order) is not None
    if isinstance(op, Store):
        return _lie_apart(op.pointer)
    return isinstance(op, TURNED) or op.definition.elementwise or op.name.startswith(CONTROL)


def _lie_apart(pointer: Value) -> bool:
    """Whether each axis of a tile steps over all that nearer ones reach, as far as its steps are numbers."""
    steps = steps_along(pointer)
    moved = [(steps.get(axis, 0), extent) for axis, extent in enumerate(_shape(pointer)) if extent > 1]
    numbers = sorted((abs(step), extent) for step, extent in moved if isinstance(step, int) and step)
    reaches = accumulate(((extent - 1) * step for step, extent in numbers), initial=0)
    is_over = all(step > reach for (step, _), reach in zip(numbers, reaches, strict=False))
    return is_over and all(step is not None for step, _ in moved)


def _new_axis(op: ExpandDims | Fold, order: Axes) -> int | None:
    """The axis along which an op works on turned tiles; None where its tile of fewer axes would be another one."""
    if isinstance(op, Fold) and not isinstance(op, Reduce):
        return order.index(op.axis)
    kept = [axis for axis in order if axis != op.axis]
    if kept == sorted(kept):
        return order.index(op.axis)
    if isinstance(op, Reduce):
        return None
    shape = _shape(op.result)
    long = [axis for axis in kept if shape[axis] > 1]
    turned, less = [shape[axis] for axis in order], list(_shape(op.source))
    places = (at for at, extent in enumerate(turned) if extent == 1 and turned[:at] + turned[at + 1 :] == less)
    return next(places, None) if long == sorted(long) else None


def _turn(ops: list[Op], order: Axes) -> None:
    """Turn all tiles of `ops`, of which each knows its axis from its operands."""
    axes = {op: _new_axis(op, order) for op in ops if isinstance(op, (ExpandDims, Fold)) and _has(op, order)}
    for op in ops:
        if _has(op, order):
            op.attributes.update({name: _turned_attribute(name, old, order) for name, old in op.attributes.items()})
    for op, axis in axes.items():
        assert axis is not None, "an op that knows no axis is not turned"
        op.attributes.update(axis=Number(axis, i32))
    for op in ops:
        inner = (arg for region in op.regions for block in region.blocks for arg in block.args)
        for value in (*op.results, *inner):
            value.type = _turned(value.type, order)


def _has(op: Op, order: Axes) -> bool:
    """Whether an op has a tile with the axes of `order`."""
    return any(len(_shape(value)) == len(order) for value in (*op.operands, *op.results))


def _turned_attribute(name: str, attribute: Attribute, order: Axes) -> Attribute:
    """A hint for each axis in the new order, the literal of a tile in its new shape."""
    match attribute:
        case Number():
            return attribute._replace(type=_turned(attribute.type, order))
        case Dense(values) if name in HINTS and len(values) == len(order):
            return attribute._replace(values=tuple(values[axis] for axis in order))
        case _:
            return attribute


def _turned(type: Type, order: Axes) -> Type:
    shape = type.shape or ()
    return with_shape(type, tuple(shape[axis] for axis in order)) if len(shape) == len(order) else type


def _shape(value: Value) -> Axes:
    return value.type.shape or ()
