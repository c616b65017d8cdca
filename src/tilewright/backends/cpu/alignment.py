"""By which axes of a nest's loops the elements of a value are asked for.

A root over a tile of shape (16, 64) runs over the axes (0, INNER). What it is computed from is asked for at other axes:

    %r = tt.load %p : 16            (0,)            tt.expand_dims + tt.broadcast
    %x = tt.load %q : 16x64         (0, INNER)
    %t = tt.load %s : 64x16         (INNER, 0)      tt.trans
    %f = tt.load %u : 1024          (ELSEWHERE,)    tt.reshape

A load or read that is asked for where the root itself is, is *aligned*: memory that is changed at one element is not
read again at another one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.backends.cpu.costs import ROOTS, is_tile, tile_operand
from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType

INNER = -1
"""The tag of the inner axis; outer axes have their number, None is an axis of one element."""

ELSEWHERE = -2
"""The tag of an axis that no single axis of the loops runs along."""

Tags = tuple[int | None, ...]


def axis_of(op: Op) -> int:
    """The attribute `axis` as a number from 0."""
    number = op.attributes["axis"]
    assert isinstance(number, Number)
    axis, rank = int(number.value), len(op.operands[0].type.shape or ())
    return axis % rank


def axis_of_new(op: Op) -> int:
    """The axis that a tt.expand_dims adds."""
    number = op.attributes["axis"]
    assert isinstance(number, Number)
    rank = len(op.result.type.shape or ())
    return int(number.value) % rank


def operand_tags(op: Op, tags: Tags) -> list[tuple[Value, Tags]]:
    """The axes by which each operand is asked for when the result of the lazy `op` is asked for by `tags`."""
    name = op.name
    if op.definition.elementwise or name in _ELEMENT_BY_ELEMENT:
        return [(v, tags if is_tile(v) else ()) for v in op.operands]
    if name == "tt.splat":
        return [(op.operands[0], ())]
    if name == "tt.expand_dims":
        axis = axis_of_new(op)
        return [(op.operands[0], tags[:axis] + tags[axis + 1 :])]
    if name == "tt.broadcast":
        source = op.operands[0].type
        assert isinstance(source, TensorType)
        return [(op.operands[0], tuple(None if n == 1 else t for n, t in zip(source.shape, tags, strict=True)))]
    if name == "tt.trans":
        order = op.attributes["order"]
        assert isinstance(order, DenseArray)
        moved: list[int | None] = [None] * len(tags)
        for position, axis in enumerate(order.values):
            moved[axis] = tags[position]
        return [(op.operands[0], tuple(moved))]
    return [(v, (ELSEWHERE,) * len(v.type.shape or ())) for v in op.operands if is_tile(v)]


_ELEMENT_BY_ELEMENT = {"tt.addptr", "tt.load", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int"}


def asked_for(root: Op) -> Iterator[tuple[Op, bool]]:
    """Every op that `root` is computed from, down to results of other roots, and whether it is aligned with `root`.

    An op that is asked for in several ways comes once for each.
    """
    own: Tags = tuple(range(len(tile_operand(root).type.shape or ())))
    seen: set[tuple[Op, Tags]] = set()
    stack: list[tuple[Value, Tags]] = [(v, own if is_tile(v) else ()) for v in root.operands]
    while stack:
        value, tags = stack.pop()
        op = value.op
        if op is None or op.name in ROOTS or (op, tags) in seen or not is_tile(value):
            continue
        seen.add((op, tags))
        yield op, _is_straight(value, tags)
        stack.extend(operand_tags(op, tags))


def _is_straight(value: Value, tags: Tags) -> bool:
    """Is each axis asked for by the axis of the same number? Axes of one element do not matter."""
    shape = value.type.shape or ()
    return all(tag in (axis, None) for axis, (tag, extent) in enumerate(zip(tags, shape, strict=True)) if extent > 1)
