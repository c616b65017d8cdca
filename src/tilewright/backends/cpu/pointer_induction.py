"""A tile that every loop iteration shifts by a scalar becomes a fixed tile plus a scalar.

    %p = scf.for … iter_args(%q = %start) {          %o = scf.for … iter_args(%d = 0) {
      tt.load %q                                       %q = addptr(%start, splat %d)
      %n = addptr(%q, splat %s)               →        tt.load %q
      scf.yield %n                                     scf.yield %d + extsi(%s)
    }                                                }
                                                     %p = addptr(%start, splat %o)

So the pointers of a matrix product stay base + rows + columns + a scalar, and no pointer tile is kept in memory.
Successive shifts, as in unrolled loops, are combined: every tile is the first one plus a scalar.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.cpu.affine import repeats
from tilewright.backends.cpu.costs import is_tile
from tilewright.dialects.arith import Binary
from tilewright.dialects.scf import For
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.tt_shape import Splat
from tilewright.ir.core import Op, Value, defining, tile_type
from tilewright.ir.types import PointerType, TensorType, Type, i64
from tilewright.transforms.matching import binary_of, number_of
from tilewright.transforms.op_builder import OpBuilder


class Shift(NamedTuple):
    """An op that adds the tile `by`, which repeats a number, to the tile `tile`."""

    op: Op
    tile: Value
    by: Value


def pointer_induction(module: Op) -> bool:
    """Replace carried tiles that a loop shifts by a scalar by a fixed tile plus a scalar, inner loops first.

    Returns whether anything changed.
    """
    changed = _join_shifts(module)
    for loop in reversed(module.ops_of(For)):
        for index in range(len(loop.results)):
            if isinstance(loop.results[index].type, TensorType):
                changed |= _carry_offset(loop, index)
    return changed


def _join_shifts(module: Op) -> bool:
    """(tile + a) + b  →  tile + (a + b), for numbers a and b; returns whether there were any."""
    known: dict[Value, tuple[Value, Value]] = {}
    for op in [op for op in module.ops_of((AddPtr, Binary)) if is_tile(op.result)]:
        shift = _shift_of(op.result)
        first = None if shift is None else _shift_of(shift.tile)
        if shift is None or first is None or first.op.name != op.name:
            continue
        inner, tile = shift.tile, tile_type(op.result)
        counter = _counter(tile)
        if inner not in known:
            known[inner] = first.tile, _as_counter(_uniform(first.by, first.op), counter, first.op)
        start, total = known[inner]
        total = OpBuilder(op).compute("arith.addi", total, _as_counter(_uniform(shift.by, op), counter, op))
        shifted = _shifted(op.name, start, total, op, tile)
        known[shifted] = start, total
        op.replace([shifted])
    return bool(known)


def _counter(tile: TensorType) -> Type:
    """The type of the scalar that is added to `tile`."""
    return i64 if isinstance(tile.element, PointerType) else tile.element


def _shift_of(value: Value) -> Shift | None:
    """The shift that computes `value`, if one does."""
    adds = defining(value, AddPtr)
    if adds is not None:
        shift = Shift(adds, adds.pointer, adds.offset)
    else:
        sum = binary_of(value, "arith.addi")
        if sum is None:
            return None
        shift = Shift(sum, sum.lhs, sum.rhs)
    return shift if repeats(shift.by) else None


def _carry_offset(loop: For, index: int) -> bool:
    """Let a loop carry the sum of its shifts in place of a tile; returns whether it can."""
    body = loop.body
    arg, yielded = loop.carried[index], loop.yielded[index]
    shifts = _shifts(yielded, arg)
    if not shifts:
        return False
    start, kind = loop.inits[index], shifts[0].op.name
    tile = tile_type(start)
    counter = _counter(tile)
    loop.set_operand(index + 3, OpBuilder(loop).constant(0, counter))
    shifted = _shifted(kind, start, arg, body.first, tile)
    arg.replace_in((u for u in arg.uses if u.name != "tt.splat"), shifted)
    arg.type = counter
    end = body.terminator
    total = arg
    for shift in reversed(shifts):
        total = OpBuilder(end).compute("arith.addi", total, _as_counter(_uniform(shift.by, end), counter, end))
    end.set_operand(index, total)

    result = loop.results[index]
    users = list(result.uses)
    result.type = counter
    if users:
        final = _shifted(kind, start, result, loop.next, tile)
        result.replace_in(users, final)
    return True


def _shifts(value: Value, arg: Value) -> list[Shift]:
    """The shifts that lead from `arg` to `value`, all of one kind, last first; [] when another op is on the way."""
    found: list[Shift] = []
    while value is not arg:
        shift = _shift_of(value)
        if shift is None or (found and shift.op.name != found[0].op.name):
            return []
        found.append(shift)
        value = shift.tile
    return found


def _uniform(value: Value, before: Op) -> Value:
    """The scalar that the uniform tile `value` repeats."""
    splat, number = defining(value, Splat), number_of(value)
    if splat is not None:
        return splat.source
    assert number is not None, "a tile that repeats a number is a splat or a constant"
    return OpBuilder(before).constant(number.value, value.type.scalar)


def _as_counter(value: Value, counter: Type, before: Op) -> Value:
    return value if value.type is counter else OpBuilder(before).cast("arith.extsi", value, counter)


def _shifted(kind: str, start: Value, offset: Value, before: Op | None, tile: TensorType) -> Value:
    assert before is not None, "a block ends with its terminator"
    at = OpBuilder(before)
    return at.emit(kind, (start, at.emit("tt.splat", (offset,), TensorType(tile.shape, _counter(tile)))), tile)
