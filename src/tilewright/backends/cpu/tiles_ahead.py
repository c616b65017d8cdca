"""Where operands of products that are computed from loads come from in the next turn of a loop, to be fetched early.

    "cpu.nest"() … cpu.write (arith.extf (tt.load %p)), %a         rows of %p, a turn further
    "cpu.dot"(%a, %b, %c)

A tile of fp16 is converted on its way into a buffer. The rows that it is made of lie pages apart, so no processor
guesses where the next ones are. An address that memory tells is not looked up early. In the last turn, the place to
which the sums go behind the loop is fetched (`result_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Container

from tilewright.analysis.value_forms import size_of
from tilewright.backends.cpu.costs import makers
from tilewright.backends.cpu.dot.spec import Prefetch
from tilewright.backends.cpu.loop_builder import LoopBuilder, operand_of
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Address, Affine, Scalar, Uniform, pointer
from tilewright.backends.cpu.nest.loads import single_address
from tilewright.backends.cpu.nest.versions import at, rely
from tilewright.backends.cpu.version_loops import assumable_in
from tilewright.dialects.cpu import CpuDot, Nest, Read, Write
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Value, tile_type
from tilewright.ir.types import i8


def computed_from(nest: Nest, write: Write) -> Load | None:
    """The largest matrix that the tile which `write` writes is computed from, if its places are known before."""
    loads = [op for op in makers(write.value) if isinstance(op, Load) and op.block is nest.body]
    matrices = [op for op in loads if len(op.pointer.type.shape or ()) == 2 and _is_told(op.pointer)]
    return max(matrices, key=_size, default=None)


def _size(load: Load) -> int:
    tile = tile_type(load.result)
    return tile.numel * tile.bits


def _is_told(pointer: Value) -> bool:
    """Whether nothing that `pointer` is computed from lies in memory."""
    return not any(isinstance(op, (Load, Read)) for op in makers(pointer))


def rows_ahead(b: LoopBuilder, access: Load | Store, nest: Nest, scalar: Callable[[Value], Scalar]) -> Prefetch | None:
    """The memory of `access`, which stands in `nest`; None if it has no rows.

    Args:
        b: where ops go.
        access: a load or a store.
        nest: the nest around.
        scalar: what a scalar from outside the nest is when `access` comes.
    """
    place = access.pointer
    shape, size = tile_type(place).shape, size_of(place)
    down, along = (_stride(b, place, nest, axis) for axis in (0, 1))
    if down is None or along is None or 1 not in (down, along):
        return None
    axis, stride = (0, down) if along == 1 else (1, along)
    lane = evaluate(Context(b, scalar, 1), place, (ZERO, ZERO))
    if not isinstance(lane, (Address, Uniform)):
        return None
    first = pointer(single_address(Context(b, scalar, 1), lane))
    step = stride * size if isinstance(stride, int) else b.mul(b.number(stride), size)
    return Prefetch(b.pointing(first, i8), step, shape[axis], shape[1 - axis] * size)


def result_rows(b: LoopBuilder, dot: CpuDot, loop: For, written: Container[Value]) -> Prefetch | None:
    """The memory that the sums of `dot`, in the body of `loop`, go to behind the loop; None if nobody knows it before.

    Args:
        b: where ops go.
        dot: the product.
        loop: the loop around.
        written: the scalars that there are already.
    """
    found = _store_of(dot, loop)
    if found is None or dot.block is not loop.body:
        return None
    store, nest = found
    outside = [v for op in makers(store.pointer) for v in op.operands if v.op is None or v.op.block is not nest.body]
    is_known = all(v in written or (v.op is not None and v.op.definition.constant) for v in outside)
    return rows_ahead(b, store, nest, operand_of) if is_known and _is_told(store.pointer) else None


def _store_of(dot: CpuDot, loop: For) -> tuple[Store, Nest] | None:
    """The first store of a matrix that is computed from the sums of `dot` behind `loop`, and the nest that it is in."""
    nests = [op.parent for op in dot.accumulator.uses if isinstance(op, Read)]
    for nest in nests:
        if isinstance(nest, Nest) and nest.block is loop.block:
            for op in nest.body:
                if isinstance(op, Store) and len(op.pointer.type.shape or ()) == 2 and _is_made_of(op.value, dot):
                    return op, nest
    return None


def _is_made_of(value: Value, dot: CpuDot) -> bool:
    return any(isinstance(op, Read) and op.buffer is dot.accumulator for op in makers(value))


def _stride(b: LoopBuilder, place: Value, nest: Nest, axis: int) -> Scalar | None:
    """The distance of neighbours along an axis, in elements, where remainders go on; None if it is not one number."""
    c = Context(b, operand_of, 1)
    c.extent = tile_type(place).shape[axis]
    c.begin(Guarded(c.lane_level))
    index = (LANE, ZERO) if axis == 0 else (ZERO, LANE)
    rely(c, [(value, at(index, tags)) for value, tags in assumable_in(place, nest.body)])
    lane = evaluate(c, place, index)
    if not isinstance(lane, Address) or not isinstance(lane.offset, Affine) or lane.offset.local:
        return None
    return lane.offset.stride
