"""tt.reshape of lanes: the elements of its operand that the lanes of a chunk use.

Extents are powers of two, so an index is a row of bits, and a reshape divides the same bits differently:

    tensor<4x32>      i i | j j j j j
    tensor<2x8x8>     a | b b b | c c c         a = i >> 1    b = (i & 1) << 2 | j >> 3    c = j & 7

If the bits of the lane are divided, as in tensor<64x2> -> tensor<128>, neighbours are apart in the operand: it is
evaluated for the even lanes and for the odd ones, each in order, and the vectors are interleaved. If it is the same on
all of them (a scale for 16 elements, broadcast), one vector is evaluated, and its elements are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import TypeAlias

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Index, Lane, Offsets, Uniform, Vector, deeper
from tilewright.dialects.tt_shape import Broadcast, Reshape
from tilewright.ir.core import Value, defining, tile_type
from tilewright.ir.types import PointerType

Ask: TypeAlias = Callable[[Context, Value, Index], Lane]
Shape: TypeAlias = tuple[int, ...]

MAX_INTERLEAVED = 4
"""Max vectors that a chunk is interleaved from; beyond that its lanes are asked for as they come."""


def reshaped(c: Context, op: Reshape, index: Index, ask: Ask) -> Lane:
    """The lanes of the tt.reshape `op` at `index`."""
    return _asked(c, op.source, tile_type(op.result).shape, index, ask, most=MAX_INTERLEAVED)


def _asked(c: Context, source: Value, shape: Shape, index: Index, ask: Ask, *, most: int) -> Lane:
    """`source`, seen as a tile of `shape`, at `index`; at most `most` vectors are interleaved."""
    old = tile_type(source).shape
    axis, count = _narrowest(old, shape, index)
    repeated = _is_repeated(source, count * prod(shape[axis + 1 :]))
    if not 2 <= count <= c.lanes // 2 or not (repeated or count <= most) or not _divides(c, source):
        there = _places(c, index, shape, old)
        found = ask(c, source, there)
        is_cut = there != index and any(not isinstance(lane, Uniform) for lane in index)
        return deeper(found, c.lane_level) if is_cut else found  # another chunk may have another place
    cut = (*shape[:axis], shape[axis] // count, count, *shape[axis + 1 :])
    element = source.type.scalar
    with _narrowed(c, count):
        numbers = range(1 if repeated else count)
        places = [(*index[:axis], LANE, Uniform(n, 0), *index[axis + 1 :]) for n in numbers]
        lanes = [_asked(c, source, cut, place, ask, most=most // len(places)) for place in places]
        if all(isinstance(lane, Uniform) for lane in lanes) and len(set(lanes)) == 1:
            return lanes[0]
        vectors = [c.as_vector(lane, element) for lane in lanes]
    level = max(found.level for found in vectors)
    with c.at(level):
        joined = _repeat(c, vectors[0], count) if repeated else _interleave(c, vectors)
    return Vector(joined, level)


@contextmanager
def _narrowed(c: Context, count: int) -> Iterator[None]:
    """Chunks of every `count`-th lane, on an axis of as many elements fewer; LANE counts those."""
    lanes, extent, position = c.lanes, c.extent, c.position
    c.lanes, c.extent = lanes // count, extent // count
    start, _ = c.divided_number(Uniform(position, c.lane_level), count)
    c.position = start.value
    yield
    c.lanes, c.extent, c.position = lanes, extent, position


def _narrowest(source: Shape, shape: Shape, index: Index) -> tuple[int, int]:
    """The axis of the lanes, and how many of them the last axis of the source that they reach has; 1 for no cut."""
    for axis, lane in enumerate(index):
        if lane == LANE and shape[axis] > 1:
            low = _bits(shape[axis + 1 :])
            above = [cut for cut in _cuts(source) if low < cut < low + _bits(shape[axis : axis + 1])]
            return axis, 1 << (min(above) - low) if above else 1
    return 0, 1


def _divides(c: Context, source: Value) -> bool:
    """Whether chunks of `source` may be narrowed: addresses stay lines, and reductions here keep all lanes."""
    is_pointer = isinstance(source.type.scalar, PointerType)
    return not is_pointer and not any(isinstance(lane, Vector) for lane in c.reduced.values())


def _is_repeated(source: Value, count: int) -> bool:
    """Whether the source is the same for the first `count` elements, and for the next ones, and so on."""
    op = defining(source, Broadcast)
    if op is None:
        return False
    inner, outer = tile_type(op.source).shape, tile_type(source).shape
    wide = len(outer)
    while wide > 0 and inner[wide - 1] == 1:
        wide -= 1
    return prod(outer[wide:]) >= count


def _places(c: Context, index: Index, shape: Shape, source: Shape) -> Index:
    """The index in the source for the index in a tile of `shape`."""
    cuts = _cuts(source)
    pieces: list[tuple[int, Offsets]] = []
    for axis, lane in enumerate(index):
        low = _bits(shape[axis + 1 :])
        pieces += _pieces(c, lane, low, [cut for cut in cuts if low < cut < low + _bits(shape[axis : axis + 1])])
    found: list[Offsets] = []
    for axis in range(len(source)):
        low, high = _bits(source[axis + 1 :]), _bits(source[axis:])
        total: Offsets = ZERO
        for place, lane in pieces:
            if low <= place < high:
                total = c.plus(c.scaled(lane, 1 << (place - low)), total)
        found.append(total)
    return tuple(found)


def _pieces(c: Context, lane: Offsets, low: int, cuts: list[int]) -> list[tuple[int, Offsets]]:
    """An index whose lowest bit is bit `low`, cut at the bits `cuts`: each piece with its lowest bit."""
    pieces = []
    for cut in sorted(cuts):
        lane, piece = c.divided(lane, 1 << (cut - low))
        pieces.append((low, piece))
        low = cut
    return [*pieces, (low, lane)]


def _cuts(shape: Shape) -> set[int]:
    """The bits at which axes of more than one element begin."""
    return {_bits(shape[axis + 1 :]) for axis, extent in enumerate(shape) if extent > 1}


def _bits(shape: Shape) -> int:
    return prod(shape).bit_length() - 1


def _repeat(c: Context, found: Vector, count: int) -> Value:
    return c.b.shuffle(found.value, None, [lane // count for lane in range(c.lanes)])


def _interleave(c: Context, vectors: list[Vector]) -> Value:
    """a0 b0 a1 b1 …; of four vectors first those two apart, then both results."""
    values, lanes = [v.value for v in vectors], c.lanes // len(vectors)
    while len(values) > 1:
        half = len(values) // 2
        order = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]
        values = [c.b.shuffle(a, b, order) for a, b in zip(values[:half], values[half:], strict=True)]
        lanes *= 2
    return values[0]
