"""Reductions and gathers with less communication between threads.

A reduction in a loop keeps one partial result per thread, and threads combine theirs once, after the loop:

    %r = scf.for … iter_args(%acc = %zero)             %p = scf.for … iter_args(%part = %neutral)
      %x = tt.load …  : tensor<32x128xf32>               %x = tt.load …
      %s = tt.reduce(%x) axis = 1                ->      %y = tt.reshape %x : … -> tensor<32x32x4xf32>
      %n = arith.addf %acc, %s                           %s = tt.reduce(%y) axis = 2      (within the thread)
                                                         %n = arith.addf %part, %s
                                                       %t = tt.reduce(%p) axis = 1
                                                       %r = arith.addf %zero, %t

A reshape that may reorder gives each thread whole rows along the axis that is reduced next; a gather gets a layout in
which a warp has whole columns. The order of a sum of floats changes, as it does in any parallel reduction.
"""

from __future__ import annotations

from math import inf, prod

from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For, Yield
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Gather, Reshape
from tilewright.ir.attributes import UNIT, Number
from tilewright.ir.core import Op, Value, defining, tile_type, typed
from tilewright.ir.types import TensorType, Type, i32
from tilewright.layouts.blocked import fill
from tilewright.layouts.encodings import Blocked, Slice
from tilewright.layouts.queries import (
    cga_layout,
    ctas_per_cga,
    elements_per_thread,
    is_expensive_view,
    order,
    thread_order,
    warp_order,
)
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.tile_ops import (
    convert_result,
    distributed_of,
    layout_as,
    relayout,
    with_layout,
    workers_of,
)
from tilewright.transforms.op_builder import OpBuilder

NEUTRAL = {
    "arith.addf": 0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": -inf,
    "arith.maxnumf": -inf,
    "arith.minimumf": inf,
    "arith.minnumf": inf,
}
"""The value that threads start with, by op. Sums start with 0.0, as Triton's: one of -0.0 alone becomes positive."""


def optimize_thread_locality(module: Op) -> bool:
    """Change the layouts of reshapes and gathers, and the reductions in loops, of `module`."""
    changed = False
    for op in list(module.walk()):
        if isinstance(op, Reshape):
            changed |= _reshape_for_reduction(op)
        elif isinstance(op, Gather) and "efficient_layout" not in op.attributes:
            changed |= _gather_in_warps(op)
    for reduction in [op for op in module.walk() if isinstance(op, Reduce)]:
        if _is_reduced_in_loop(reduction):
            _reduce_after_loop(reduction)
            changed = True
    return changed


# Reshapes


def _reshape_for_reduction(op: Reshape) -> bool:
    if "allow_reorder" not in op.attributes:
        return False
    axes = {user.axis for user in op.result.uses if isinstance(user, Reduce)}
    if len(axes) != 1:
        return False
    axis, type = axes.pop(), tile_type(op.result)
    layout = distributed_of(op.result)
    if isinstance(layout, Blocked) and _is_in_thread(layout, axis):
        return False
    last = (*(dim for dim in order(layout, type.shape) if dim != axis), axis)
    new = fill(type.shape, (1,) * len(type.shape), last, workers_of(op))
    source = distributed_of(op.source)
    if new is layout or is_expensive_view(source, tile_type(op.source).shape, new, type.shape):
        return False
    op.result.type = with_layout(type, new)
    op.attributes = {**op.attributes, "efficient_layout": True}
    convert_result(op.result, type)
    return True


def _is_in_thread(layout: Blocked, axis: int) -> bool:
    """Whether each thread has everything along `axis`."""
    return layout.threads_per_warp[axis] == layout.warps_per_cta[axis] == ctas_per_cga(layout)[axis] == 1


# Gathers


def _gather_in_warps(op: Gather) -> bool:
    shape, axis = tile_type(op.source).shape, op.axis
    source, workers = distributed_of(op.source), workers_of(op)
    if len(shape) == 1 or (workers.ctas > 1 and not isinstance(source, Blocked)):  # whose CTAs may leave steps out
        return False
    others = [dim for dim in thread_order(source, shape) if dim != axis]
    lanes, left = [1] * len(shape), workers.lanes
    for dim in (axis, *others):
        lanes[dim] = min(shape[dim], left)
        left //= lanes[dim]
    warps, free = [1] * len(shape), workers.warps
    for dim in warp_order(source, shape):
        if dim != axis:
            warps[dim] = min(shape[dim] // lanes[dim], free)
            free //= warps[dim]
    sizes = [shape[dim] // lanes[dim] if dim == axis else 1 for dim in range(len(shape))]
    # What does not fit holds copies along the axis.
    lanes[axis] *= left
    warps[axis] *= free
    layout = Blocked(tuple(sizes), tuple(lanes), tuple(warps), (axis, *others), cga_layout(source))
    relayout(op, layout)
    op.attributes = {**op.attributes, "efficient_layout": UNIT}
    return True


# Reductions in loops


def _is_reduced_in_loop(op: Reduce) -> bool:
    """Whether `op` reduces a loaded tile along its last axis, and a loop adds up the results from a constant on."""
    combine = _combiner(op)
    if combine is None or combine.name not in NEUTRAL or any(defining(value, Load) is None for value in op.sources):
        return False
    layout, shape = distributed_of(op.sources[0]), tile_type(op.sources[0]).shape
    if not isinstance(layout, Blocked) or len(shape) < 2 or op.axis != len(shape) - 1:
        return False
    if elements_per_thread(layout, shape)[-1] == 1 or len(op.results) != 1:
        return False
    update = _only_user(op.result)
    end = _only_user(update.result) if update is not None and len(update.results) == 1 else None
    if update is None or not isinstance(end, Yield) or end.parent is not op.parent:
        return False
    loop = op.parent
    # Largest elements of rows that are added up, say, are no sum or maximum of what threads have.
    if not isinstance(loop, For) or update.name != combine.name:
        return False
    place = end.values.index(update.result)
    constant = isinstance(loop.inits[place].op, Constant)
    return constant and _only_user(loop.carried[place]) is update and len(loop.results[place].uses) == 1


def _combiner(op: Reduce) -> Op | None:
    """The one op that a reduction combines with."""
    ops = [inner for inner in op.combine if not inner.definition.terminator]
    return ops[0] if len(ops) == 1 else None


def _only_user(value: Value) -> Op | None:
    if len(value.uses) != 1:
        return None
    (user, count), *_ = value.uses.items()
    return user if count == 1 else None


def _reduce_after_loop(op: Reduce) -> None:
    loop, update = typed(op.parent, For), _only_user(op.result)
    assert update is not None, "one op adds its result up"
    block = loop.body
    place = loop.yielded.index(update.result)
    start, result = loop.inits[place], loop.results[place]
    parts, partial = _thread_parts(op)
    part = add_carried(loop, _constant_of(op, start, partial))
    within = _reduction(op, parts, partial)
    added = block.insert(update.clone({op.result: within.result, loop.carried[place]: part}), within.next)
    added.result.type = partial
    end = block.terminator
    operands = [loop.carried[place] if i == place else value for i, value in enumerate(end.operands)]
    end.set_operands([*operands, added.result])
    _finish(op, loop, update, place, start, result)
    update.erase()
    op.erase()


def _thread_parts(op: Reduce) -> tuple[TensorType, TensorType]:
    """The operand's type with what a thread has along the last axis as one more axis, and the type of its reduction."""
    type = tile_type(op.sources[0])
    layout = layout_as(op.sources[0], Blocked)
    count, rank = elements_per_thread(layout, type.shape)[-1], len(type.shape)
    wide = Blocked(
        (*layout.size_per_thread[:-1], 1, layout.size_per_thread[-1]),
        (*layout.threads_per_warp, 1),
        (*layout.warps_per_cta, 1),
        (rank, *layout.order),
        tuple((*row, 0) for row in layout.cga),
    )
    shape = (*type.shape[:-1], type.shape[-1] // count, count)
    assert prod(shape) == type.numel, "the axis is split"
    return TensorType(shape, type.element, wide.text), TensorType(shape[:-1], type.element, Slice(rank, wide).text)


def _constant_of(op: Reduce, start: Value, type: TensorType) -> Value:
    """A tile of what changes nothing, behind the constant `start`."""
    combine, constant = _combiner(op), start.op
    assert combine is not None, "the combiner was checked"
    assert constant is not None, "the loop starts with a constant"
    return OpBuilder.after(constant).constant(NEUTRAL[combine.name], type)


def _reduction(op: Reduce, parts: TensorType, result: Type) -> Op:
    """The reduction `op` of its operands in the shape `parts`, right behind it."""
    at, words = OpBuilder.after(op), {"allow_reorder": True, "efficient_layout": True}
    views = [at.emit("tt.reshape", (value,), parts, {**words}) for value in op.sources]
    new = op.clone()
    new.set_operands(views)
    new.attributes = {**new.attributes, "axis": Number(len(parts.shape) - 1, i32)}
    new.result.type = result
    return at.insert(new)


def _finish(op: Reduce, loop: For, update: Op, place: int, start: Value, result: Value) -> None:
    """Reduce the threads' parts behind the loop, and add the constant that the loop started with."""
    (user, _), *_ = result.uses.items()
    rest = op.clone()
    rest.set_operands([loop.results[-1]])
    parent = distributed_of(loop.results[-1])
    rows = tile_type(loop.results[-1]).shape[: op.axis]  # which is the last axis
    rest.result.type = TensorType(rows, result.type.scalar, Slice(op.axis, parent).text)
    back = Op.create("ttg.convert_layout", rest.results, (result.type,), location=op.location)
    total = update.clone({op.result: back.result, loop.carried[place]: start})
    at = OpBuilder.after(loop)
    for new in (rest, back, total):
        at.insert(new)
    for index, value in enumerate(user.operands):
        if value is result:
            user.set_operand(index, total.result)
