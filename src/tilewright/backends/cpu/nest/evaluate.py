"""The lanes of a tile value at an index: the one place where tile ops become vector instructions.

`evaluate(c, value, index)` asks for the elements of `value` at `index`, one entry per axis of its tile. Ops that only
move elements pass the question on with another index; the others compute.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from tilewright.backends.cpu.affine import extends_as_one, keeps_element_size
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.integers import affine_result, widened
from tilewright.backends.cpu.nest.lane_values import (
    Address,
    Affine,
    Index,
    Lane,
    Offsets,
    Uniform,
    Vector,
    Wrapped,
    is_chunked,
    level_of,
)
from tilewright.backends.cpu.nest.loads import load, masks_memory, needed_mask, read_buffer
from tilewright.backends.cpu.nest.moves import MOVES
from tilewright.backends.llvm.elementwise import is_elementwise, lower_elementwise
from tilewright.backends.llvm.spelling import element_of, in_registers, literal, vector
from tilewright.dialects.cpu import tile_of
from tilewright.ir.attributes import Dense, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import PointerType, TensorType, f32
from tilewright.support.diagnostics import InternalError


def evaluate(c: Context, value: Value, index: Index) -> Lane:
    """The lanes of `value` at `index`; code is written where it is needed, and only once."""
    if value in c.reduced:
        return c.reduced[value]
    key = (value, index)
    lane = c.known(key)
    if lane is None:
        others, c.guards = c.guards, 0
        lane = _compute(c, value, index) if c.w.debug is None else _described(c, value, index)
        c.remember(key, lane)
        c.owed[c.fast, key] = c.guards
        c.guards |= others
    else:
        c.guards |= c.owed.get((c.fast, key), 0)
    return lane


def _described(c: Context, value: Value, index: Index) -> Lane:
    """`_compute`, with debug information."""
    if c.w.debug is None or value.op is None or value.op.parent is None or value.op.parent.name != "cpu.nest":
        return _compute(c, value, index)
    with c.w.debug.inside(value.op):
        lane = _compute(c, value, index)
    if isinstance(lane, Uniform | Vector):
        element, lanes = element_of(value.type), c.lanes if isinstance(lane, Vector) else 1
        with c.at(lane.level) as w:
            w.show(value, vector(element, lanes), lane.name)
    return lane


def _compute(c: Context, value: Value, index: Index) -> Lane:
    op = value.op
    if op is None or op.block is None or op.parent is None or op.parent.name != "cpu.nest":
        if op is not None and op.definition.constant and isinstance(op.attributes["value"], Number):
            return _constant(c, op, index)
        return Uniform(c.scalar(value), 0)
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(c, op, index)
    move = MOVES.get(op.name)
    if move is not None:
        return move(c, value, index, evaluate)
    return _elementwise(c, op, index)


def _elementwise(c: Context, op: Op, index: Index) -> Lane:
    if not is_elementwise(op):
        raise InternalError(f"{op.name} has no CPU lowering")
    operands = [evaluate(c, v, index if isinstance(v.type, TensorType) else ()) for v in op.operands]
    if all(isinstance(x, Uniform) for x in operands):
        level = max((level_of(x) for x in operands), default=0)
        with c.at(level) as w:
            return Uniform(lower_elementwise(w, op, [getattr(x, "name", "") for x in operands], 1), level)
    special = affine_result(c, op, operands) or _scaled_by_reciprocal(c, op, operands)
    if special is not None:
        return special
    vectors = [c.as_vector(x, element_of(v.type)) for x, v in zip(operands, op.operands, strict=True)]
    level = max(v.level for v in vectors)
    with c.at(level) as w:
        return Vector(lower_elementwise(w, op, [v.name for v in vectors], c.lanes), level)


def _scaled_by_reciprocal(c: Context, op: Op, operands: list[Lane]) -> Lane | None:
    """x / s = x · (1 / s) in the fast version, as long as 1 / s is a normal number; at most 1 ulp off.

    Triton's `/` on fp32 allows 2 ulp; `div_rn` is another op. A division takes five times as long as a product.
    """
    divisor = operands[-1]
    if not c.fast or op.name != "arith.divf" or op.result.type.scalar is not f32 or not isinstance(divisor, Uniform):
        return None
    if divisor.level >= c.lane_level or is_chunked(divisor):
        return None
    level = divisor.level
    with c.at(level) as w:
        size = w.intrinsic("llvm.fabs", "float", divisor.name)
    small = c.emit(level, f"fcmp ogt float {size}, {literal(2.0**-125, 'float')}")
    large = c.emit(level, f"fcmp olt float {size}, {literal(2.0**125, 'float')}")
    c.assume(c.emit(level, f"and i1 {small}, {large}"))
    inverse = c.as_vector(Uniform(c.emit(level, f"fdiv float 1.0, {divisor.name}"), level), "float")
    value = c.as_vector(operands[0], "float")
    deep = max(inverse.level, value.level)
    return Vector(c.emit(deep, f"fmul {vector('float', c.lanes)} {value.name}, {inverse.name}"), deep)


def _constant(c: Context, op: Op, index: Index) -> Lane:
    number = op.attributes["value"]
    element = element_of(op.result.type)
    if isinstance(number, Number):
        return Uniform(literal(in_registers(number.value, op.result.type), element), 0)
    assert isinstance(number, Dense)
    values = [in_registers(value, op.result.type) for value in number.values]
    from_table = Uniform(c.w.table(f"table{crc32(repr(number).encode())}", element, values), 0)
    return read_buffer(c, from_table, op.result.type, index)


def _load(c: Context, op: Op, index: Index) -> Lane:
    return load(c, op, [evaluate(c, v, index) for v in op.operands])


def _select(c: Context, op: Op, index: Index) -> Lane:
    """Where the mask of a load or a store chooses, the fast version knows that it is on."""
    condition, chosen, _ = op.operands
    is_mask = (c.fast or c.unmasked) and isinstance(condition.type, TensorType) and masks_memory(condition)
    if is_mask and needed_mask(c, evaluate(c, condition, index)) is None:
        return evaluate(c, chosen, index)
    return _elementwise(c, op, index)


def _read(c: Context, op: Op, index: Index) -> Lane:
    base = Uniform(c.scalar(op.operands[0]), 0)
    if op.attributes.get("row"):
        return read_buffer(c, base, _buffer_tile(op), index[-1:])
    return read_buffer(c, base, _buffer_tile(op), index)


def _buffer_tile(op: Op) -> TensorType:
    buffer = op.operands[0].type
    return tile_of(buffer)


def _add_pointer(c: Context, op: Op, index: Index) -> Lane:
    pointer, offset = (evaluate(c, v, index if isinstance(v.type, TensorType) else ()) for v in op.operands)
    pointee = op.result.type.scalar
    assert isinstance(pointee, PointerType)
    element = memory_element(pointee)
    source = element_of(op.operands[1].type)
    if isinstance(offset, Affine | Wrapped) and not extends_as_one(op.operands[1]):
        offset = c.as_vector(offset, source)
    wide = _widen(c, offset, source)
    if isinstance(pointer, Uniform):
        return Address(pointer, wide, element)
    if isinstance(pointer, Address) and pointer.element == element:
        total = c.plus(pointer.offset, wide)
        assert isinstance(total, Offsets), "a sum of indices is an index"
        return Address(pointer.base, total, element)
    base = c.as_vector(pointer, "ptr")
    steps = c.as_vector(wide, "i64")
    level = max(base.level, steps.level)
    many = f"<{c.lanes} x ptr>" if c.lanes > 1 else "ptr"
    each = f"<{c.lanes} x i64>" if c.lanes > 1 else "i64"
    return Vector(c.emit(level, f"getelementptr {element}, {many} {base.name}, {each} {steps.name}"), level)


def _widen(c: Context, offset: Lane, element: str) -> Offsets:
    """An offset as i64."""
    if isinstance(offset, Wrapped):
        return widened(c, offset, element, "i64")
    if isinstance(offset, Uniform):
        return Uniform(c.extend(offset.name, element, "i64", offset.level), offset.level)
    if isinstance(offset, Affine):
        base, stride = (c.extend(part, element, "i64", offset.level) for part in (offset.base, offset.stride))
        return Affine(base, stride, offset.level, offset.local)
    found = c.as_vector(offset, element)
    if element == "i64":
        return found
    many = (f"<{c.lanes} x {element}>", f"<{c.lanes} x i64>") if c.lanes > 1 else (element, "i64")
    return Vector(c.emit(found.level, f"sext {many[0]} {found.name} to {many[1]}"), found.level)


def memory_element(pointer: PointerType) -> str:
    """The LLVM type of what a pointer points at, in memory: truth values take a byte."""
    element = element_of(pointer.pointee)
    return "i8" if element == "i1" else element


def _bitcast(c: Context, op: Op, index: Index) -> Lane:
    """Pointers keep their address; other bits are reinterpreted."""
    target = op.result.type.scalar
    if not isinstance(target, PointerType):
        return _elementwise(c, op, index)
    lane = evaluate(c, op.operands[0], index if isinstance(op.operands[0].type, TensorType) else ())
    element = memory_element(target)
    if isinstance(lane, Address) and lane.element != element:
        if keeps_element_size(op):
            return lane._replace(element=element)
        if isinstance(lane.offset, Uniform):
            level = level_of(lane)
            start = f"getelementptr {lane.element}, ptr {lane.base.name}, i64 {lane.offset.name}"
            return Uniform(c.emit(level, start), level)
        return c.as_vector(lane, "ptr")
    return lane


_RULES: dict[str, Callable[[Context, Op, Index], Lane]] = {
    "arith.constant": _constant,
    "arith.select": _select,
    "cpu.read": _read,
    "tt.addptr": _add_pointer,
    "tt.bitcast": _bitcast,
    "tt.load": _load,
}
