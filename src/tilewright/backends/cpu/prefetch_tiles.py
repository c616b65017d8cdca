"""The memory from which computed operands come in the next iteration of a loop, for prefetching.

    "cpu.nest"() … cpu.write (arith.extf (tt.load %p)), %a         rows of %p, an iteration further
    "cpu.dot"(%a, %b, %c)

A tile of fp16 is converted on its way into a buffer. Its rows are pages apart, so no hardware prefetcher finds the next
ones. Addresses that come from memory are not looked up early. In the last iteration, the destination of the results is
prefetched (`result_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from tilewright.analysis.value_flow import backward_slice
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
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.arith import Division
from tilewright.dialects.cpu import CpuDot, Nest, Read, Write
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import AddPtr, Load, Store
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.core import Op, Value, tile_type
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
    down, along = (_stride(Context(b, scalar, 1), place, nest, axis) for axis in (0, 1))
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
    """The memory that the sums of `dot`, in the body of `loop`, go to behind the loop; None if unknown it before.

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
    steps = {value: _steps_after(loop, value, written) for value in _outside(store.pointer, nest)}
    if not _is_told(store.pointer) or None in steps.values():
        return None
    rows = rows_ahead(b, store, nest, lambda value: operand_of(_again(b, value, steps[value] or ())))
    return None if rows is None else replace(rows, operand=2)


def rows_of_next_program(b: LoopBuilder, load: Load, nest: Nest, fastest: str) -> Prefetch | None:
    """The memory that the next program of this thread reads by `load`, which stands in `nest`; None if it is the same.

    Args:
        b: where ops go.
        load: reads what every iteration of a loop multiplies by.
        nest: the nest around.
        fastest: the axis of the grid along which programs follow each other.
    """
    steps = {value: _steps_between_programs(value, fastest) for value in _outside(load.pointer, nest)}
    if not any(steps.values()):
        return None
    found = rows_ahead(b, load, nest, lambda value: operand_of(_again(b, value, steps[value])))
    return None if found is None else replace(found, operand=2)


def _outside(place: Value, nest: Nest) -> list[Value]:
    """The values from outside `nest` that `place` is computed from."""
    inside = backward_slice(place, lambda op: op.block is nest.body)
    return [v for v in (place, *(v for op in inside for v in op.operands)) if v.op not in inside]


def _steps_between_programs(value: Value, fastest: str) -> list[Op]:
    """The ops by which a scalar differs in the next program, in order; none if it is the same or unknown."""

    def is_known(op: Op) -> bool:
        return _is_plain(op) or (op.name == "tt.get_program_id" and isinstance(op, ProgramId) and op.axis == fastest)

    moving = dict[Value, Op]()
    for op in _steps_to(value, is_known):
        if isinstance(op, ProgramId) or any(v in moving for v in op.operands):
            moving[op.result] = op
    return list(moving.values())


def _steps_after(loop: For, value: Value, written: Container[Value]) -> list[Op] | None:
    """The ops behind `loop` that compute a scalar from those in `written`, in order; None if others do."""

    def is_there(value: Value) -> bool:
        return value in written or (value.op is not None and value.op.definition.constant)

    steps = _steps_to(value, lambda op: _is_plain(op) and op.block is loop.block and not is_there(op.result))
    known = {op.result for op in steps}
    needed = [value, *(v for op in steps for v in op.operands)]
    return steps if all(v in known or is_there(v) for v in needed) else None


def _steps_to(value: Value, is_step: Callable[[Op], bool]) -> list[Op]:
    """The ops of which `is_step` holds that `value` is computed by, each behind those that it needs."""
    found, stack = dict[Op, None](), [value]
    while stack:
        op = stack[-1].op
        if op is None or op in found or not is_step(op):
            stack.pop()
            continue
        needed = [v for v in op.operands if v.op is not None and v.op not in found and is_step(v.op)]
        stack += needed
        if not needed:
            found[op] = None
    return list(found)


def _again(b: LoopBuilder, value: Value, steps: Iterable[Op]) -> Value:
    """A scalar as `steps` compute it once more, the number of the program being that of the next one."""
    found = dict[Value, Value]()
    for op in steps:
        operands = [found.get(v, v) for v in op.operands]
        found[op.result] = b.add(op.result, 1) if isinstance(op, ProgramId) else b.copy(op, operands).result
    return found.get(value, value)


def _is_plain(op: Op) -> bool:
    """Whether a scalar op may be executed at any time."""
    return isinstance(op, AddPtr) or (is_elementwise(op) and not isinstance(op, Division))


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


def _stride(c: Context, place: Value, nest: Nest, axis: int) -> Scalar | None:
    """The distance of neighbours along an axis, in elements, where remainders go on; None if it is not one number."""
    c.extent = tile_type(place).shape[axis]
    c.begin(Guarded(c.lane_level))
    index = (LANE, ZERO) if axis == 0 else (ZERO, LANE)
    rely(c, [(value, at(index, tags)) for value, tags in assumable_in(place, nest.body)])
    lane = evaluate(c, place, index)
    if not isinstance(lane, Address) or not isinstance(lane.offset, Affine) or lane.offset.local:
        return None
    return lane.offset.stride
