"""Tests whether the tiles that a nest stores overlap other memory that it touches.

A nest interleaves loads and stores. That is right when every store's tile is apart from all other tiles, or is the
very tile that is loaded: then each element is loaded before it is stored, unless it is asked for at another index, as
in x + trans(x), or two elements have one address, as in windows that overlap. Otherwise all stores of the nest go to
buffers, and the buffers are copied out afterwards, in program order.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.alignment import asked_for
from tilewright.backends.cpu.costs import ACCESSES, is_tile, makers, where_of
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import (
    LANE,
    ZERO,
    ActiveLaneBound,
    Address,
    Affine,
    Index,
    Lane,
    Offsets,
    Uniform,
    affine_address,
    uniform,
)
from tilewright.backends.cpu.nest.loads import read_buffer
from tilewright.backends.cpu.nest.stores import write
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.cpu.strides import may_repeat
from tilewright.backends.llvm.spelling import bits_of, element_of
from tilewright.dialects.arith import CompareIntegers, ModularArithmetic
from tilewright.dialects.cpu import GuardedStore, tile_of
from tilewright.dialects.traits import Indexing
from tilewright.dialects.tt_memory import Load, pointee_type
from tilewright.dialects.tt_shape import Broadcast
from tilewright.ir.core import Value, tile_type


class Reach(NamedTuple):
    """The memory that a tile of pointers covers.

    Attributes:
        low: the first address, as i64.
        high: the address behind the last element.
        first: the address of element (0, …, 0).
        steps: bytes from one element to the next along each axis.
        lengths: bytes from the first element to the last one along each axis.
        shape: the tile's.
    """

    low: str
    high: str
    first: str
    steps: tuple[str, ...]
    lengths: tuple[str, ...]
    shape: tuple[int, ...]


Where = tuple[Value, ...]
"""The pointer of an access, and its mask if it has one."""

Pair = tuple[Where, Where, bool]
"""A store, another access, and whether the latter is a load that is asked for at another index."""


def emit_alias_check(c: Context, nest: Nest) -> str:
    """An i1: whether a store of `nest` overlaps memory that `nest` loads or stores, other than element by element."""
    accesses = [op for op in nest.body if isinstance(op, ACCESSES) and is_tile(op.pointer)]
    reaches = {op: _reach(c, *where_of(op)) for op in accesses}
    elsewhere = {op for sink in nest.sinks for op, straight in asked_for(sink) if isinstance(op, Load) and not straight}
    result = "false"
    checked: set[Pair] = set()
    for store in [op for op in accesses if isinstance(op, GuardedStore)]:
        for other in accesses:
            pair = (tuple(where_of(store)), tuple(where_of(other)), other in elsewhere)
            if other is store or pair in checked:
                continue
            checked |= {pair, (pair[1], pair[0], pair[2])}
            result = _either(c, result, _disturbs(c, pair, reaches[store], reaches[other]))
    return result


def _either(c: Context, a: str, b: str) -> str:
    if "false" in (a, b):
        return b if a == "false" else a
    return c.emit(0, f"or i1 {a}, {b}")


def _disturbs(c: Context, pair: Pair, a: Reach, b: Reach) -> str:
    """An i1: whether the store touches memory that the other access touches at another index."""
    (store, *_), (other, *_), elsewhere = pair
    if elsewhere or a.shape != b.shape:
        return _meets(c, a, b)
    repeats = _repeats(c, a, b) if may_repeat(store) else "false"
    if store is other:
        return repeats
    return c.emit(0, f"and i1 {_meets(c, a, b)}, {_either(c, _differs(c, a, b), repeats)}")


def _meets(c: Context, a: Reach, b: Reach) -> str:
    below = c.emit(0, f"icmp slt i64 {a.low}, {b.high}")
    above = c.emit(0, f"icmp slt i64 {b.low}, {a.high}")
    return c.emit(0, f"and i1 {below}, {above}")


def _differs(c: Context, a: Reach, b: Reach) -> str:
    different = c.emit(0, f"icmp ne i64 {a.first}, {b.first}")
    for x, y, extent in zip(a.steps, b.steps, a.shape, strict=True):
        if x != y and extent > 1:
            different = c.emit(0, f"or i1 {different}, {c.emit(0, f'icmp ne i64 {x}, {y}')}")
    return different


def _repeats(c: Context, a: Reach, b: Reach) -> str:
    """An i1: whether two elements of one tile, reached as far as `a` and as `b`, may have one address.

    They have not if the axes, from the first to the last or the other way round, each step over all that follow.
    """
    axes = [
        (_absolute(c, step), c.intrinsic(0, "llvm.smax", _absolute(c, x), _absolute(c, y)))
        for step, x, y, extent in zip(a.steps, a.lengths, b.lengths, a.shape, strict=True)
        if extent > 1
    ]
    too_short = [_steps_too_short(c, order) for order in (axes, axes[::-1])[: len(axes)]]
    return c.emit(0, f"and i1 {too_short[0]}, {too_short[-1]}") if too_short else "false"


def _steps_too_short(c: Context, axes: list[tuple[str, str]]) -> str:
    """An i1: whether some axis does not step over those that follow."""
    inner, result = "0", "false"
    for step, length in reversed(axes):
        result = _either(c, result, c.emit(0, f"icmp sle i64 {step}, {inner}"))
        inner = c.add(inner, length, "i64", 0)
    return result


def _absolute(c: Context, number: str) -> str:
    return c.intrinsic(0, "llvm.smax", number, c.subtract("0", number, "i64", 0))


def _reach(c: Context, pointer: Value, mask: Value | None = None) -> Reach:
    """The reach of a tile of pointers, linear in each index. Where a mask cuts an axis off, the reach ends there."""
    assert is_affine(pointer), "who shares a nest with a store has an affine address"
    shape = pointer.type.shape or ()
    size = max(1, pointee_type(pointer.type.scalar).bits // 8)
    origin, known_steps = _lines(c, pointer, shape)
    low = first = _address(c, origin)
    steps, lengths, span, known = [], [], "0", size
    for axis, extent in enumerate(shape):
        step = "0" if extent == 1 else known_steps[axis] or _step(c, pointer, axis, origin)
        steps.append(step)
        length = c.multiply(step, _last_index(c, mask, axis, extent), "i64", 0)
        lengths.append(length)
        if length.isdigit():
            known += int(length)
            continue
        if not step.isdigit():
            low = c.emit(0, f"add i64 {low}, {c.intrinsic(0, 'llvm.smin', length, '0')}")
            length = c.intrinsic(0, "llvm.smax", length, "0")
        span = c.add(span, length, "i64", 0)
    high = c.add(first, c.add(span, str(known), "i64", 0), "i64", 0)
    return Reach(low, high, first, tuple(steps), tuple(lengths), shape)


def _lines(c: Context, pointer: Value, shape: tuple[int, ...]) -> tuple[Lane, list[str]]:
    """The first element, and bytes from one element to the next along each axis, "" where only subtracting tells.

    Along a line the loops compute the same base and stride, so asking for them writes no code of its own.
    """
    zero: Index = tuple(ZERO for _ in shape)
    origin, steps = None, []
    for axis, c.extent in enumerate(shape):
        along = tuple(LANE if a == axis else ZERO for a in range(len(shape)))
        lane = evaluate(c, pointer, along) if c.extent > 1 else None
        if isinstance(lane, Address) and isinstance(lane.offset, Affine) and not lane.offset.local:
            steps.append(c.multiply(lane.offset.stride, str(bits_of(lane.element) // 8), "i64", 0))
            origin = origin or lane._replace(offset=Uniform(lane.offset.base, lane.offset.level))
        else:
            steps.append("")
    return origin or evaluate(c, pointer, zero), steps


def _last_index(c: Context, mask: Value | None, axis: int, extent: int) -> str:
    """The last index along an axis at which the mask can be on."""
    last = str(extent)
    for part in conjuncts(mask) if mask is not None and extent > 1 else ():
        shape = part.type.shape or ()
        if [a for a, n in enumerate(shape) if n > 1] == [axis] and _is_cheap(part):
            c.extent = extent
            lane = evaluate(c, part, tuple(LANE if a == axis else ZERO for a in range(len(shape))))
            if isinstance(lane, ActiveLaneBound) and lane.level == 0:
                last = c.intrinsic(0, "llvm.smin", last, lane.below)
    if last == str(extent):
        return str(extent - 1)
    return c.emit(0, f"add i64 {c.intrinsic(0, 'llvm.smax', last, '1')}, -1")


def conjuncts(mask: Value) -> list[Value]:
    """The conditions whose conjunction `mask` is, as tiles of the mask's rank."""
    op = mask.op
    if op is not None and (op.name == "arith.andi" or isinstance(op, Broadcast)) and is_tile(mask):
        return [part for v in op.operands for part in conjuncts(v)]
    return [mask]


def _is_cheap(mask: Value) -> bool:
    """Whether the mask is made of comparisons of indices only. Others are not worth computing here."""
    cheap = (Indexing, CompareIntegers, ModularArithmetic)
    return all(isinstance(op, cheap) or op.name == "arith.andi" for op in makers(mask))


def _step(c: Context, pointer: Value, axis: int, origin: Lane) -> str:
    """Bytes from the first element to the next one along an axis; a number if it is known now."""
    rank = len(pointer.type.shape or ())
    following = evaluate(c, pointer, tuple(Uniform("1", 0) if a == axis else ZERO for a in range(rank)))
    if isinstance(origin, Address) and isinstance(following, Address) and origin.base == following.base:
        start, end = uniform(origin.offset), uniform(following.offset)  # a corner is one element
        distance = c.subtract(end.name, start.name, "i64", 0)
        return c.multiply(distance, str(bits_of(origin.element) // 8), "i64", 0)
    return c.emit(0, f"sub i64 {_address(c, following)}, {_address(c, origin)}")


def _address(c: Context, lane: Lane) -> str:
    if isinstance(lane, Uniform):
        return c.emit(0, f"ptrtoint ptr {lane.name} to i64")
    base, offset, element = affine_address(lane)
    corner = uniform(offset).name
    if corner == "0":
        return c.emit(0, f"ptrtoint ptr {base.name} to i64")
    where = f"getelementptr {element}, ptr {base.name}, i64 {corner}"
    return c.emit(0, f"ptrtoint ptr {c.emit(0, where)} to i64")


def copy_back(c: Context, stores: list[GuardedStore]) -> None:
    """After the nest: where stores were redirected, copy each buffer to where it belongs, one store after the other."""
    redirected = c.redirected
    assert redirected is not None
    c.redirected = None
    w = c.w
    with w.branch(redirected, unlikely=True) as branch, branch.then():
        for store in stores:
            _copy(c, store)
    c.redirected = redirected


def _copy(c: Context, store: GuardedStore) -> None:
    """Copy element by element: it is rare, and this is short."""
    tile, buffer = tile_type(store.value), store.buffer
    lanes, extent, lane_level, position = c.lanes, c.extent, c.lane_level, c.position
    c.lanes, c.extent, c.lane_level = 1, 1, 1
    c.forget(0)
    with c.w.loop(0, tile.numel) as loop:
        c.depth = 1
        c.insertion_points.append(c.w.open_section())
        index = _index_of(c, loop.index, tile.shape)
        element = element_of(tile)
        read = read_buffer(c, Uniform(c.scalar(buffer), 0), tile_of(buffer.type), index)
        lane = _mask(c, store, index)
        write(c, evaluate(c, store.pointer, index), read, lane, element)()
    c.insertion_points.pop()
    c.depth = 0
    c.forget(0)
    c.lanes, c.extent, c.lane_level, c.position = lanes, extent, lane_level, position


def _mask(c: Context, store: GuardedStore, index: Index) -> Lane | None:
    """The mask of `store`, from the buffer that keeps it if it may have changed."""
    kept = store.kept_mask
    if kept is None:
        return None if store.mask is None else evaluate(c, store.mask, index)
    return read_buffer(c, Uniform(c.scalar(kept), 0), tile_of(kept.type), index)


def _index_of(c: Context, linear: str, shape: tuple[int, ...]) -> Index:
    found: list[Offsets] = []
    rest: Offsets = Uniform(linear, 1)
    for extent in reversed(shape[1:]):
        rest, low = c.divided(rest, extent)
        found.append(low)
    return (rest, *reversed(found))
