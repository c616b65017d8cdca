"""A copy of a kernel's ops on tiles that are several times as wide: the tiles of neighbouring programs side by side.

    %r = tt.make_range {end = 32} : 32              %r = tt.make_range {end = 128} : 128
    %s = tt.splat %start : 32x1             →       %s = tt.splat %start : 32x1
    %x = tt.load %p : 32x32                         %x = tt.load %p : 32x128

A value is copied for each axis along which it has to be wider, and once as it is where that is needed: rows and columns
of a square tile often share one range.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.value_forms import size_of
from tilewright.backends.cpu.alignment import Tags
from tilewright.backends.cpu.costs import is_tile
from tilewright.backends.cpu.function_motion import WIDE, FunctionMotion, asked_by, carried_by, tags_of
from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import For
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Store
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import Type, i32, with_shape

Wanted = dict[Value, dict[int | None, None]]
"""The axes along which values have to be wider; None: the value is needed as it is."""


def wanted_by(function: Func, motion: FunctionMotion) -> Wanted | None:
    """The values to be wider so that the stores of several programs are one; None: these are not side by side."""
    stores, loops = function.ops_of(Store), function.ops_of(For)
    rows = {store: _row(store) for store in stores}
    widths = {(store.pointer.type.shape or (0,))[axis] for store, axis in rows.items() if axis is not None}
    if None in rows.values() or len(widths) != 1 or not all(_is_row(motion, *row) for row in rows.items()):
        return None
    stack = [(value, tags_of(value, axis)) for store, axis in rows.items() for value in store.operands]
    stack += [(value, ()) for loop in loops for value in (*loop.bounds, *loop.carried) if not is_tile(value)]
    wanted = _all_wanted(stack, widths.pop())
    if wanted is None or motion.divided:
        return None
    last = {value: len(value.type.shape or ()) - 1 for loop in loops for value in loop.carried if is_tile(value)}
    if any(list(wanted.get(value, ())) != [axis] for value, axis in last.items()):
        return None
    return wanted if motion.are_loops_alike(loops, dict(last)) and not motion.divided else None


def _row(store: Store) -> int | None:
    """The only axis of the tile with more than one element."""
    axes = [axis for axis, extent in enumerate(store.pointer.type.shape or ()) if extent > 1]
    return axes[0] if len(axes) == 1 else None


def _is_row(motion: FunctionMotion, store: Store, axis: int | None) -> bool:
    """Whether the next program stores what continues this one's row, element by element."""
    if axis is None or not all(motion.shifts(value, axis) for value in store.operands):
        return False
    table = motion.forms.of(store.pointer).terms.get(())
    return table is not None and table.rest is None and table.steps[axis] == size_of(store.pointer)


def _all_wanted(stack: list[tuple[Value, Tags]], width: int) -> Wanted | None:
    wanted: Wanted = {}
    while stack:
        value, tags = stack.pop()
        axis = tags.index(WIDE) if WIDE in tags else None
        axes = wanted.setdefault(value, {})
        if axis in axes:
            continue
        axes[axis] = None
        if axis is not None and (value.type.shape or ())[axis] != width:
            return None
        place = carried_by(value)
        if place is not None:
            loop, number = place
            parts = (loop.inits[number], loop.carried[number], loop.yielded[number], loop.results[number])
            stack += [(part, tags) for part in parts]
        elif value.op is not None:
            if isinstance(value.op, Reduce) and _captures(value.op):
                return None
            stack += asked_by(value.op, tags)
    return wanted


def _captures(reduce: Reduce) -> bool:
    """Whether the combine function uses values from outside."""
    ops = list(reduce.combine.ops())
    own = {*reduce.combine.args, *(result for op in ops for result in op.results)}
    return any(op.regions or not own.issuperset(op.operands) for op in ops)


class WideCopy:
    """The copy of what is `wanted` of ops in a block, for so many programs."""

    def __init__(self, wanted: Wanted, times: int) -> None:
        self.wanted, self.times = wanted, times
        self.copies: dict[tuple[Value, int | None], Value] = {}

    def fill(self, block: Block, ops: Sequence[Op]) -> None:
        """Append the copies of ops to `block`."""
        for op in ops:
            if isinstance(op, For):
                block.append(self._loop(op))
            elif isinstance(op, Store):
                axis = _row(op)
                block.append(self._of(op, [self._copied(v, axis if is_tile(v) else None) for v in op.operands]))
            elif not op.definition.terminator:
                for axis in dict.fromkeys(axis for result in op.results for axis in self.wanted.get(result, ())):
                    block.append(self._result(op, axis))

    def _copied(self, value: Value, axis: int | None) -> Value:
        return self.copies.get((value, axis), value)

    def _learn(self, old: Value, new: Value, axis: int | None) -> None:
        new.type, new.name, new.location = self._type(old.type, axis), old.name, old.location
        self.copies[old, axis] = new

    def _type(self, type: Type, axis: int | None) -> Type:
        if axis is None:
            return type
        shape = type.shape or ()
        return with_shape(type, (*shape[:axis], shape[axis] * self.times, *shape[axis + 1 :]))

    def _of(self, op: Op, operands: Sequence[Value]) -> Op:
        copy = op.clone()
        copy.set_operands(operands)
        return copy

    def _result(self, op: Op, axis: int | None) -> Op:
        asked = asked_by(op, tags_of(op.results[0], axis))
        copy = self._of(op, [self._copied(v, tags.index(WIDE) if WIDE in tags else None) for v, tags in asked])
        for old, new in zip(op.results, copy.results, strict=True):
            self._learn(old, new, axis)
        if axis is not None:
            copy.attributes = {**copy.attributes, **self._widened(op, copy)}
        return copy

    def _widened(self, op: Op, copy: Op) -> dict[str, Attribute]:
        """The attributes of `op` that depend on how wide its copy is; a constant that shifts is one number."""
        if isinstance(op, MakeRange):
            return {"end": Number(op.start + (op.end - op.start) * self.times, i32)}
        if isinstance(op, Constant) and isinstance(op.value, Number):
            return {"value": Number(op.value.value, copy.result.type)}
        return {}

    def _loop(self, loop: For) -> Op:
        axes = [next(iter(self.wanted[value])) for value in loop.carried]
        operands = [self._copied(v, None) for v in loop.bounds]
        operands += [self._copied(v, axis) for v, axis in zip(loop.inits, axes, strict=True)]
        body = Block([value.type for value in loop.body.args])
        counter, *carried = body.args
        self._learn(loop.induction_variable, counter, None)
        types = [self._type(value.type, axis) for value, axis in zip(loop.results, axes, strict=True)]
        copy = Op(loop.definition, operands, types, dict(loop.attributes), [Region([body])], (), loop.location)
        for number, axis in enumerate(axes):
            self._learn(loop.carried[number], carried[number], axis)
            self._learn(loop.results[number], copy.results[number], axis)
        self.fill(body, list(loop.body.ops()))
        ends = [self._copied(v, axis) for v, axis in zip(loop.yielded, axes, strict=True)]
        body.append(Op.create("scf.yield", ends, location=loop.body.terminator.location))
        return copy
