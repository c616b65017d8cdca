"""Analysis: along which axes of a nest's loops the elements of a value are used.

A sink over a tile of shape (16, 64) runs over the axes (0, INNER). Its operands are used along other axes:

    %r = tt.load %p : 16            (0,)            tt.expand_dims + tt.broadcast
    %x = tt.load %q : 16x64         (0, INNER)
    %t = tt.load %s : 64x16         (INNER, 0)      tt.trans
    %f = tt.load %u : 1024          (ELSEWHERE,)    tt.reshape

A load or read that is used at the position of the sink itself is *aligned*: memory that is changed at one element is
not read again at another one.

Partners of a gather may be in one vector: elements are exchanged in a register, and nothing goes through memory.

    %p = arith.xori %i, dense<4>           →     vector.shuffle %x [4, 5, 6, 7, 0, 1, 2, 3, …]
    %y = tt.gather %x[%p]

So the steps of a sorting network at distances below the lanes of a vector share a nest. Each evaluates its source for
the same vector. A user of other elements, one by one or along another axis, gets such a tile in a buffer; otherwise
each of a chain of gathers would double the computation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.analysis.gather_distance import distance_of_indices
from tilewright.backends.cpu.costs import inputs, is_sink, is_tile, tile_operand
from tilewright.dialects.cpu import Accumulate, Read, Write
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Fold
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Gather, Splat, Trans
from tilewright.ir.core import Op, Value, tile_type

INNER = -1
"""The tag of the inner axis; outer axes have their number, None is an axis of one element."""

ELSEWHERE = -2
"""The tag of an axis that no single axis of the loops runs along."""

Tags = tuple[int | None, ...]


def axis_of(op: Fold | Gather) -> int:
    """The axis of the operand along which `op` goes, as a number from 0."""
    operand = op.source if isinstance(op, Gather) else op.sources[0]
    return op.axis % len(operand.type.shape or ())


def axis_of_new(op: ExpandDims) -> int:
    """The axis that a tt.expand_dims adds."""
    return op.axis % len(op.result.type.shape or ())


def operand_tags(op: Op, tags: Tags) -> list[tuple[Value, Tags]]:
    """The axes by which each operand is asked for when the result of `op` is asked for by `tags`."""
    if op.definition.elementwise or isinstance(op, Load):
        return [(v, tags if is_tile(v) else ()) for v in op.operands]
    if isinstance(op, Splat):
        return [(op.source, ())]
    if isinstance(op, ExpandDims):
        axis = axis_of_new(op)
        return [(op.source, tags[:axis] + tags[axis + 1 :])]
    if isinstance(op, Broadcast):
        shape = tile_type(op.source).shape
        return [(op.source, tuple(None if n == 1 else t for n, t in zip(shape, tags, strict=True)))]
    if isinstance(op, Trans):
        moved: list[int | None] = [None] * len(tags)
        for position, axis in enumerate(op.order):
            moved[axis] = tags[position]
        return [(op.source, tuple(moved))]
    starts = set(op.inits).difference(op.captured) if isinstance(op, Accumulate) else ()
    return [(v, tags if v in starts else (ELSEWHERE,) * len(v.type.shape or ())) for v in inputs(op) if is_tile(v)]


def asked_for(sink: Op) -> Iterator[tuple[Op, bool]]:
    """Every op that `sink` is computed from, down to results of other sinks, and whether it is aligned with `sink`.

    An op that is asked for in several ways comes once for each.
    """
    own: Tags = tuple(range(len(tile_operand(sink).type.shape or ())))
    seen: set[tuple[Op, Tags]] = set()
    stack: list[tuple[Value, Tags]] = [(v, own if is_tile(v) else ()) for v in sink.operands]
    if isinstance(sink, Accumulate):
        stack = operand_tags(sink, own)
    while stack:
        value, tags = stack.pop()
        op = value.op
        if op is None or is_sink(op) or (op, tags) in seen or not is_tile(value):
            continue
        seen.add((op, tags))
        yield op, _is_straight(value, tags)
        stack.extend(operand_tags(op, tags))


def _is_straight(value: Value, tags: Tags) -> bool:
    """Whether each axis is asked for by the axis of the same number. Axes of one element do not matter."""
    shape = value.type.shape or ()
    return all(tag in (axis, None) for axis, (tag, extent) in enumerate(zip(tags, shape, strict=True)) if extent > 1)


def trades_within_vectors(gather: Gather, vector_bits: int) -> bool:
    """Whether the elements of each vector along the last axis trade places, if vectors have so many bits."""
    distance, source = distance_of_indices(gather), tile_type(gather.source)
    if distance is None or axis_of(gather) != len(source.shape) - 1 or tile_type(gather.result).shape != source.shape:
        return False
    return distance * max(source.element.bits, 8) < vector_bits


def asks_for_vectors(op: Op) -> bool:
    """Whether `op` asks its operands along their last axis, whatever loops it shares."""
    return isinstance(op, Write) or (isinstance(op, Store) and len(op.value.type.shape or ()) == 1)


def least_lanes(ops: Iterable[Op]) -> int:
    """The fewest lanes that chunks of a nest of these ops may have, so that partners are in one of them."""
    near = (distance_of_indices(op) for op in ops if isinstance(op, Gather) and not isinstance(op.source.op, Read))
    return max((1 << distance.bit_length() for distance in near if distance is not None), default=1)
