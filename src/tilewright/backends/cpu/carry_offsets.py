"""A tile that every loop iteration shifts by one number becomes a fixed tile plus a scalar.

    %p = scf.for … iter_args(%q = %start) {          %o = scf.for … iter_args(%d = 0) {
      tt.load %q                                       %q = addptr(%start, splat %d)
      %n = addptr(%q, splat %s)               →        tt.load %q
      scf.yield %n                                     scf.yield %d + extsi(%s)
    }                                                }
                                                     %p = addptr(%start, splat %o)

So the pointers of a matrix product stay base + rows + columns + one number, and no pointer tile is kept in memory.
Shifts one after the other, as of unrolled loops, become one: every tile is the first one plus a scalar.
"""

from __future__ import annotations

from tilewright.backends.cpu.insertion import op_before
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import PointerType, TensorType, Type, i64

SHIFTS = {"tt.addptr", "arith.addi"}


def carry_offsets(module: Op) -> None:
    """Apply the rewrite above to every carried tile of every scf.for; inner loops first."""
    _join_shifts(module)
    for loop in reversed([op for op in module.walk() if op.name == "scf.for"]):
        for index in range(len(loop.results)):
            if isinstance(loop.results[index].type, TensorType):
                _carry_offset(loop, index)


def _join_shifts(module: Op) -> None:
    """(tile + a) + b  →  tile + (a + b), for numbers a and b."""
    known: dict[Value, tuple[Value, Value]] = {}
    for op in [op for op in module.walk() if op.name in SHIFTS and _is_uniform(op.operands[1])]:
        inner, tile = op.operands[0], op.result.type
        first = inner.op
        if not isinstance(tile, TensorType) or first is None or first.name != op.name:
            continue
        if not _is_uniform(first.operands[1]):
            continue
        counter = _counter(tile)
        if inner not in known:
            known[inner] = first.operands[0], _as_counter(_uniform(first.operands[1], first), counter, first)
        start, total = known[inner]
        total = op_before(op, "arith.addi", (total, _as_counter(_uniform(op.operands[1], op), counter, op)), counter)
        shifted = _shifted(op.name, start, total, op, tile)
        known[shifted] = start, total
        op.replace([shifted])


def _counter(tile: TensorType) -> Type:
    """The type of the scalar that is added to `tile`."""
    return i64 if isinstance(tile.element, PointerType) else tile.element


def _carry_offset(loop: Op, index: int) -> None:
    body = loop.regions[0].block
    arg, yielded = body.args[index + 1], body.terminator.operands[index]
    shifts = _shifts(yielded, arg)
    if not shifts:
        return
    start, kind = loop.operands[index + 3], shifts[0].name
    tile = start.type
    assert isinstance(tile, TensorType)
    counter = _counter(tile)
    loop.set_operand(index + 3, op_before(loop, "arith.constant", (), counter, {"value": Number(0, counter)}))
    shifted = _shifted(kind, start, arg, body.first, tile)
    for user in [u for u in arg.uses if u.name != "tt.splat"]:
        user.set_operands([shifted if v is arg else v for v in user.operands])
    arg.type = counter
    end = body.terminator
    total = arg
    for shift in reversed(shifts):
        step = _as_counter(_uniform(shift.operands[1], end), counter, end)
        total = op_before(end, "arith.addi", (total, step), counter)
    end.set_operand(index, total)

    result = loop.results[index]
    users = list(result.uses)
    result.type = counter
    if users:
        final = _shifted(kind, start, result, loop.next, tile)
        for user in users:
            user.set_operands([final if v is result else v for v in user.operands])


def _shifts(value: Value, arg: Value) -> list[Op]:
    """The ops that lead from `arg` to `value` by adding uniform tiles, last first; [] when another op is on the way."""
    found: list[Op] = []
    while value is not arg:
        op = value.op
        if op is None or op.name not in SHIFTS or not _is_uniform(op.operands[1]):
            return []
        if found and op.name != found[0].name:
            return []
        found.append(op)
        value = op.operands[0]
    return found


def _is_uniform(value: Value) -> bool:
    op = value.op
    if op is None:
        return False
    return op.name == "tt.splat" or (op.name == "arith.constant" and isinstance(op.attributes["value"], Number))


def _uniform(value: Value, before: Op) -> Value:
    """The scalar that the uniform tile `value` repeats."""
    op = value.op
    assert op is not None
    if op.name == "tt.splat":
        return op.operands[0]
    number = op.attributes["value"]
    assert isinstance(number, Number)
    scalar = value.type.scalar
    return op_before(before, "arith.constant", (), scalar, {"value": Number(number.value, scalar)})


def _as_counter(value: Value, counter: Type, before: Op) -> Value:
    if value.type is counter:
        return value
    return op_before(before, "arith.extsi", (value,), counter)


def _shifted(kind: str, start: Value, offset: Value, before: Op | None, tile: TensorType) -> Value:
    assert before is not None, "a block ends with its terminator"
    shape = TensorType(tile.shape, _counter(tile))
    return op_before(before, kind, (start, op_before(before, "tt.splat", (offset,), shape)), tile)
