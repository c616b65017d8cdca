"""Where operands of products that are computed from loads come from in the next turn of a loop, to be fetched early.

    "cpu.nest"() … cpu.write (arith.extf (tt.load %p)), %a         rows of %p, a turn further
    "cpu.dot"(%a, %b, %c)

A tile of fp16 is converted on its way into a buffer. The rows that it is made of lie pages apart, so no processor
guesses where the next ones are. An address that memory tells is not looked up early.
"""

from __future__ import annotations

from tilewright.analysis.value_forms import size_of
from tilewright.backends.cpu.costs import makers
from tilewright.backends.cpu.dot.spec import Prefetch
from tilewright.backends.cpu.loop_builder import LoopBuilder, operand_of
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Address, Affine, Scalar, Uniform, pointer
from tilewright.backends.cpu.nest.loads import single_address
from tilewright.backends.cpu.nest.versions import at, rely
from tilewright.backends.cpu.next_turn import NextTurn
from tilewright.backends.cpu.version_loops import assumable_in
from tilewright.dialects.cpu import Nest, Read, Write
from tilewright.dialects.tt_memory import Load
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


def rows_ahead(b: LoopBuilder, load: Load, nest: Nest, turn: NextTurn) -> Prefetch | None:
    """The memory that `load`, which stands in `nest`, reads in the next turn; None if it has no rows."""
    shape, size = tile_type(load.pointer).shape, size_of(load.pointer)
    down, along = (_stride(b, load, nest, axis) for axis in (0, 1))
    if down is None or along is None or 1 not in (down, along):
        return None
    axis, stride = (0, down) if along == 1 else (1, along)
    lane = evaluate(Context(turn.b, turn.value, 1), load.pointer, (ZERO, ZERO))
    if not isinstance(lane, (Address, Uniform)):
        return None
    first = pointer(single_address(Context(turn.b, turn.value, 1), lane))
    step = stride * size if isinstance(stride, int) else b.mul(b.number(stride), size)
    return Prefetch(b.pointing(first, i8), step, shape[axis], shape[1 - axis] * size)


def _stride(b: LoopBuilder, load: Load, nest: Nest, axis: int) -> Scalar | None:
    """The distance of neighbours along an axis, in elements, where remainders go on; None if it is not one number."""
    c = Context(b, operand_of, 1)
    c.extent = tile_type(load.pointer).shape[axis]
    c.begin(Guarded(c.lane_level))
    index = (LANE, ZERO) if axis == 0 else (ZERO, LANE)
    rely(c, [(value, at(index, tags)) for value, tags in assumable_in(load.pointer, nest.body)])
    lane = evaluate(c, load.pointer, index)
    if not isinstance(lane, Address) or not isinstance(lane.offset, Affine) or lane.offset.local:
        return None
    return lane.offset.stride
