"""Tiles with reordered axes, where memory is contiguous along another axis than the last, as in sums over matrix rows.

    %x = tt.load %p : tensor<64x4x!tt.ptr<f32>>                 %x = tt.load %p : tensor<4x64x!tt.ptr<f32>>
    %s = tt.reduce(%x) {axis = 1} : … -> tensor<64xf32>    →    %s = tt.reduce(%x) {axis = 0} : … -> tensor<64xf32>

Vectors run along the last axis. If that axis is not contiguous in memory, each lane is a separate load. All tiles of
two or three axes are reordered together, so no element has to be moved; every op of a function has to allow that. A
store of which two elements might share an address does not, because the last one wins. A sum over two axes of three
reshapes its tile, which is reordered as well:

    tt.reshape %x : tensor<64x8x4xf32> -> tensor<64x32xf32>  →  tt.reshape %x : tensor<8x4x64xf32> -> tensor<32x64xf32>
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
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Reshape, Splat
from tilewright.ir.attributes import Attribute, Dense, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_dead
from tilewright.ir.types import Type, i32, with_shape
from tilewright.transforms.functions import functions_of
from tilewright.transforms.op_builder import OpBuilder

Axes: TypeAlias = tuple[int, ...]
"""Axes of a tile in another order."""

TRANSPOSABLE = (Broadcast, Constant, Load, Splat)
"""Ops that give the same elements where their tiles are the other way round."""
IN_ORDER = (InlineAsm, MapElementwise)
"""Ops on elements that may take several neighbours at a time."""
CONTROL = ("scf.", "cf.")
"""Dialects whose ops pass on what they are given."""
MIN_NEIGHBOURS = 8
"""Min extent of the axis along which memory lies: half a vector."""
MAX_AXES = 3
"""Max number of axes of a tile that is turned."""


def transpose_tiles(module: Op) -> bool:
    """Reorder the axes of tiles that are contiguous along another axis than the last; returns whether any are."""
    changed = False
    for function in functions_of(module):
        order = _better_order(function)
        ops = [op for op in function.walk() if op is not function] if order else []
        if order and all(_may_transpose(op, order) for op in ops):
            _transpose(ops, order)
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
    if len(most) != 1 or rank > MAX_AXES:
        return ()
    (axis,) = most
    others = [each for each in range(rank) if each != axis]
    return () if axis == rank - 1 else (*others, axis)


def _axes_along(pointer: Value) -> list[int]:
    """The axes whose neighbours are neighbours in memory, the last one however short it is."""
    shape, steps = _shape(pointer), steps_along(pointer)
    fewest = [MIN_NEIGHBOURS] * (len(shape) - 1) + [2]
    return [axis for axis, extent in enumerate(shape) if steps.get(axis) == 1 and extent >= fewest[axis]]


def _may_transpose(op: Op, order: Axes) -> bool:
    """Whether an op has no tile with the axes of `order`, or does not care which of them is the first."""
    ranks = {len(_shape(value)) for value in (*op.operands, *op.results)}
    if max(ranks, default=0) < len(order):
        return True
    has_elements = isinstance(op, Constant) and isinstance(op.value, Dense)
    return max(ranks) == len(order) and not has_elements and _may_transpose_tile(op, order)


def _may_transpose_tile(op: Op, order: Axes) -> bool:
    """Whether an op with a tile that has the axes of `order` does not care which of them is the first."""
    match op:
        case ExpandDims():
            return _new_axes(op, order) is not None
        case Fold():
            return _new_axis(op, order) is not None
        case Reshape():
            return _merges(op, order)
        case Store():
            return _lie_apart(op.pointer)
        case _:
            is_transposed = isinstance(op, TRANSPOSABLE) or op.name.startswith(CONTROL)
            return is_transposed or (op.definition.elementwise and not isinstance(op, IN_ORDER))


def _lie_apart(pointer: Value) -> bool:
    """Whether each axis of a tile steps over all that nearer ones reach, as far as its steps are numbers."""
    steps = steps_along(pointer)
    moved = [(steps.get(axis, 0), extent) for axis, extent in enumerate(_shape(pointer)) if extent > 1]
    numbers = sorted((abs(step), extent) for step, extent in moved if isinstance(step, int) and step)
    reaches = accumulate(((extent - 1) * step for step, extent in numbers), initial=0)
    is_over = all(step > reach for (step, _), reach in zip(numbers, reaches, strict=False))
    return is_over and all(step is not None for step, _ in moved)


def _new_axis(op: Fold, order: Axes) -> int | None:
    """The axis along which an op works on turned tiles; None if its tile of fewer axes would be another one."""
    kept = [axis for axis in order if axis != op.axis]
    return order.index(op.axis) if kept == sorted(kept) or not isinstance(op, Reduce) else None


def _new_axes(op: ExpandDims, order: Axes) -> tuple[Value, Axes] | None:
    """A tile with fewer axes, and the axes that make the turned tile of it, one behind the other; None: there is none.

    Axes of one element come from anywhere, so those that were added to its source before are added again.
    """
    shape, source = _shape(op.result), op.source
    turned = [shape[axis] for axis in order]
    long = [axis for axis in order if shape[axis] > 1]
    places = _added(_shape(source), turned)
    while places is None and isinstance(source.op, ExpandDims):
        source = source.op.source
        places = _added(_shape(source), turned)
    return None if places is None or long != sorted(long) else (source, places)


def _added(less: Axes, shape: list[int]) -> Axes | None:
    """The axes of `shape` that a tile of the shape `less` does not have, all of one element; None: it has others."""
    left, places = list(less), list[int]()
    for at, extent in enumerate(shape):
        if left[:1] == [extent]:
            left.pop(0)
        else:
            places.append(at)
    return None if left or any(shape[at] > 1 for at in places) else tuple(places)


def _merges(op: Reshape, order: Axes) -> bool:
    """Whether a reshape makes one axis of all but the one that will be the last, for reductions alone."""
    first, *others = _shape(op.source)
    is_merged = len(others) > 1 and order[-1] == 0 and _shape(op.result) == (first, prod(others))
    return is_merged and all(_reduces_merged(user, order) for user in op.result.uses)


def _reduces_merged(op: Op, order: Axes) -> bool:
    """Whether an op only reduces tiles that are reshaped from ones with the axes of `order`."""
    makers = [value.op for value in op.operands]
    merged = [maker for maker in makers if isinstance(maker, Reshape) and len(_shape(maker.source)) == len(order)]
    return isinstance(op, Reduce) and len(merged) == len(makers)


def _transpose(ops: list[Op], order: Axes) -> None:
    """Transpose all tiles of `ops`, of which each knows its axis from its operands."""
    tiles = [op for op in ops if _has(op, order)]
    folds = {op: _new_axis(op, order) for op in tiles if isinstance(op, Fold)}
    expanded = {op: _new_axes(op, order) for op in tiles if isinstance(op, ExpandDims)}
    merged = {op.result for op in tiles if isinstance(op, Reshape)}
    for op in tiles:
        op.attributes.update({name: _turned_attribute(name, old, order) for name, old in op.attributes.items()})
    for reduction in {user for value in merged for user in value.uses if isinstance(user, Reduce)}:
        folds[reduction] = 1 - reduction.axis
    for op, axis in folds.items():
        assert axis is not None, "an op that knows no axis is not turned"
        op.attributes.update(axis=Number(axis, i32))
    for op, found in expanded.items():
        assert found is not None, "an op that knows no axes is not turned"
        _expand(op, *found)
    for op in ops:
        inner = (arg for region in op.regions for block in region.blocks for arg in block.args)
        for value in (*op.results, *inner):
            value.type = _turned(value.type, (1, 0) if value in merged else order)
    for op in reversed(ops):
        if isinstance(op, ExpandDims) and is_dead(op):
            op.erase()


def _expand(op: ExpandDims, source: Value, places: Axes) -> None:
    """Let `op` make its tile of `source` by axes of one element."""
    at, shape = OpBuilder(op), list(_shape(source))
    for place in places[:-1]:
        shape.insert(place, 1)
        type = with_shape(source.type, tuple(shape))
        source = at.emit("tt.expand_dims", (source,), type, {"axis": Number(place, i32)})
    op.set_operands((source,))
    op.attributes.update(axis=Number(places[-1], i32))


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
