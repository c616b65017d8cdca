"""Do the tiles that a nest stores overlap other memory that it touches?

A nest interleaves loads and stores. That is right when every store's tile is apart from all other tiles, or is the
very tile that is loaded (then each element is loaded before it is stored). Otherwise all stores of the nest go to
buffers, and the buffers are copied out afterwards, in program order.
"""

from __future__ import annotations

from tilewright.backends.cpu.costs import INDEXING, is_tile
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Address, Affine, Index, Lane, Prefix, Uniform
from tilewright.backends.cpu.nest.loads import read_buffer
from tilewright.backends.cpu.nest.stores import write
from tilewright.backends.cpu.phases import Nest
from tilewright.backends.llvm.spelling import element_of
from tilewright.dialects.cpu import tile_of
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType

Span = tuple[str, str]
"""First address, and the address behind the last element, as i64."""

_MASK_AT = {"cpu.store": 3, "tt.load": 1, "tt.store": 2}
"""Memory ops, and the position of their mask among the operands."""


def overlap(c: Context, nest: Nest) -> str:
    """An i1: some store of `nest` overlaps another tile that `nest` loads or stores."""
    spans: dict[Value, Span] = {}
    for op in nest.body:
        if op.name in _MASK_AT and op.operands[0] not in spans:
            mask = op.operands[_MASK_AT[op.name] :][:1]
            spans[op.operands[0]] = _span(c, op.operands[0], mask[0] if mask else None)
    result = "false"
    checked: set[frozenset[Value]] = set()
    for store in [op for op in nest.body if op.name == "cpu.store"]:
        for other, span in spans.items():
            pair = frozenset((store.operands[0], other))
            if len(pair) == 2 and pair not in checked:
                checked.add(pair)
                result = _either(c, result, _meets(c, spans[store.operands[0]], span))
    return result


def _either(c: Context, a: str, b: str) -> str:
    return b if a == "false" else c.emit(0, f"or i1 {a}, {b}")


def _meets(c: Context, a: Span, b: Span) -> str:
    below = c.emit(0, f"icmp slt i64 {a[0]}, {b[1]}")
    above = c.emit(0, f"icmp slt i64 {b[0]}, {a[1]}")
    meets = c.emit(0, f"and i1 {below}, {above}")
    different = c.emit(0, f"icmp ne i64 {a[0]}, {b[0]}")
    longer = c.emit(0, f"icmp ne i64 {a[1]}, {b[1]}")
    return c.emit(0, f"and i1 {meets}, {c.emit(0, f'or i1 {different}, {longer}')}")


def _span(c: Context, pointer: Value, mask: Value | None) -> Span:
    """From the first element, and from how far each axis reaches: the address is linear in each index.

    Where a mask cuts an axis off at some element, the reach ends there.
    """
    shape = pointer.type.shape or ()
    zero: Index = tuple(ZERO for _ in shape)
    pointee = getattr(pointer.type.scalar, "pointee", None)
    assert pointee is not None
    size = max(1, pointee.bits // 8)
    low = high = first = _address(c, pointer, zero)
    for axis, extent in enumerate(shape):
        last = _last_index(c, mask, zero, axis, extent)
        reach = _reach(c, pointer, zero, axis, last, first, size)
        if reach.isdigit():
            high = c.add(high, reach, "i64", 0)
        else:
            low = c.emit(0, f"add i64 {low}, {c.intrinsic(0, 'llvm.smin', reach, '0')}")
            high = c.emit(0, f"add i64 {high}, {c.intrinsic(0, 'llvm.smax', reach, '0')}")
    return low, c.add(high, str(size), "i64", 0)


def _last_index(c: Context, mask: Value | None, zero: Index, axis: int, extent: int) -> str:
    """The last index along an axis at which the mask can be on."""
    if mask is None or extent == 1:
        return str(extent - 1)
    lane = evaluate(c, mask, (*zero[:axis], LANE, *zero[axis + 1 :])) if _is_cheap(mask) else mask
    if not isinstance(lane, Prefix) or lane.level > 0:
        return str(extent - 1)
    bounded = c.intrinsic(0, "llvm.smin", lane.below, str(extent))
    return c.emit(0, f"add i64 {c.intrinsic(0, 'llvm.smax', bounded, '1')}, -1")


def _is_cheap(mask: Value) -> bool:
    """Is the mask made of comparisons of indices only? Others are not worth computing here."""
    op = mask.op
    return op is None or (op.name in _MASK_OPS and all(_is_cheap(v) for v in op.operands if is_tile(v)))


_MASK_OPS = {"arith.addi", "arith.andi", "arith.cmpi", "arith.constant", "arith.muli", "arith.subi"} | INDEXING


def _reach(c: Context, pointer: Value, zero: Index, axis: int, last: str, first: str, size: int) -> str:
    """Bytes from the first element to the one at index `last` of an axis; a number if it is known now."""
    if last == "0":
        return "0"
    if axis == len(zero) - 1:
        lane = evaluate(c, pointer, (*zero[:-1], LANE))
        offset = lane.offset if isinstance(lane, Address) else lane
        if isinstance(offset, Affine) and offset.stride.isdigit():
            return c.multiply(last, str(int(offset.stride) * size), "i64", 0)
    corner = (*zero[:axis], Uniform(last, 0), *zero[axis + 1 :])
    return c.emit(0, f"sub i64 {_address(c, pointer, corner)}, {first}")


def _address(c: Context, pointer: Value, index: Index) -> str:
    lane = evaluate(c, pointer, index)
    if isinstance(lane, Uniform):
        return c.emit(0, f"ptrtoint ptr {lane.name} to i64")
    assert isinstance(lane, Address), "a guarded store has an affine address"
    assert isinstance(lane.offset, Uniform), "a corner is one element"
    where = f"getelementptr {lane.element}, ptr {lane.base.name}, i64 {lane.offset.name}"
    return c.emit(0, f"ptrtoint ptr {c.emit(0, where)} to i64")


def copy_back(c: Context, stores: list[Op]) -> None:
    """After the nest: where stores were redirected, copy each buffer to where it belongs, one store after the other."""
    redirected = c.redirected
    assert redirected is not None
    c.redirected = None
    w = c.w
    with w.branch(redirected, unlikely=True) as branch, branch.then():
        for store in stores:
            _copy(c, store)
    c.redirected = redirected


def _copy(c: Context, store: Op) -> None:
    """Element by element: it is rare, and this is short."""
    pointer, value, buffer, *mask = store.operands
    tile = value.type
    assert isinstance(tile, TensorType)
    lanes, extent, lane_level, position = c.lanes, c.extent, c.lane_level, c.position
    c.lanes, c.extent, c.lane_level = 1, 1, 1
    c.forget(0)
    with c.w.loop(0, tile.numel) as loop:
        c.depth = 1
        c.places.append(c.w.open_section())
        index = _index_of(c, loop.index, tile.shape)
        element = element_of(tile)
        read = read_buffer(c, Uniform(c.scalar(buffer), 0), tile_of(buffer.type), index)
        lane: Lane | None = evaluate(c, mask[0], index) if mask else None
        write(c, evaluate(c, pointer, index), read, lane, element)()
    c.places.pop()
    c.depth = 0
    c.forget(0)
    c.lanes, c.extent, c.lane_level, c.position = lanes, extent, lane_level, position


def _index_of(c: Context, linear: str, shape: tuple[int, ...]) -> Index:
    found: list[Lane] = []
    rest: Lane = Uniform(linear, 1)
    for extent in reversed(shape[1:]):
        rest, low = c.divided(rest, extent)
        found.append(low)
    return (rest, *reversed(found))
