"""The lanes of a tile value at an index: the one place where tile ops become vector instructions.

`evaluate(c, value, index)` asks for the elements of `value` at `index`, one entry per axis of its tile. Ops that only
move elements pass the question on with another index; the others compute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from tilewright.backends.cpu.affine import extends_as_one, keeps_element_size
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.integers import affine_result, widened
from tilewright.backends.cpu.nest.lane_values import (
    Address,
    Affine,
    Index,
    Lane,
    ModuloRange,
    Offsets,
    Uniform,
    Vector,
    is_chunked,
    level_of,
)
from tilewright.backends.cpu.nest.loads import load, masks_memory, needed_mask, read_buffer
from tilewright.backends.cpu.nest.moves import MOVES
from tilewright.backends.llvm.elementwise import is_elementwise, lower_elementwise
from tilewright.backends.llvm.spelling import element_of, in_registers, literal, vector
from tilewright.dialects.arith import Constant, Select
from tilewright.dialects.cpu import Nest, Read, tile_of
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr, Load, pointee_type
from tilewright.dialects.tt_shape import Split
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import PointerType, TensorType, Type, f32
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
        c.memoised_guards[c.fast, key] = c.guards
        c.guards |= others
    else:
        c.guards |= c.memoised_guards.get((c.fast, key), 0)
    return lane


def _described(c: Context, value: Value, index: Index) -> Lane:
    """`_compute`, with debug information."""
    if c.w.debug is None or value.op is None or not isinstance(value.op.parent, Nest):
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
    if op is None or not isinstance(op.parent, Nest):
        if isinstance(op, Constant) and isinstance(op.value, Number):
            return _constant(c, op, index)
        return Uniform(c.scalar(value), 0)
    rule = RULES.get(op.name)
    if rule is not None:
        return rule(c, op, index)
    move = MOVES.get(op.name)
    if move is not None:
        return move(c, op, index, evaluate)
    if isinstance(op, Split):
        return evaluate(c, op.source, (*index, Uniform(str(value.index), 0)))
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
    if not c.fast or op.name != "arith.divf" or op.result.type.scalar is not f32:
        return None
    dividend, divisor = operands
    if not isinstance(divisor, Uniform):
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
    value = c.as_vector(dividend, "float")
    deep = max(inverse.level, value.level)
    return Vector(c.emit(deep, f"fmul {vector('float', c.lanes)} {value.name}, {inverse.name}"), deep)


def _constant(c: Context, op: Constant, index: Index) -> Lane:
    numbers = op.value
    element = element_of(op.result.type)
    if isinstance(numbers, Number):
        return Uniform(literal(in_registers(numbers.value, op.result.type), element), 0)
    values = [in_registers(value, op.result.type) for value in numbers.values]
    from_table = Uniform(c.w.table(f"table{crc32(repr(numbers).encode())}", element, values), 0)
    return read_buffer(c, from_table, tile_type(op.result), index)


def _load(c: Context, op: Load, index: Index) -> Lane:
    return load(c, op, [evaluate(c, v, index) for v in op.operands])


def _select(c: Context, op: Select, index: Index) -> Lane:
    """A selection; in the fast version, one by the mask of a load or a store takes the side for active lanes."""
    condition = op.condition
    is_mask = (c.fast or c.unmasked) and isinstance(condition.type, TensorType) and masks_memory(condition)
    if is_mask and needed_mask(c, evaluate(c, condition, index)) is None:
        return evaluate(c, op.chosen, index)
    return _elementwise(c, op, index)


def _read(c: Context, op: Read, index: Index) -> Lane:
    base = Uniform(c.scalar(op.buffer), 0)
    return read_buffer(c, base, tile_of(op.buffer.type), index[-1:] if op.row else index)


def _add_pointer(c: Context, op: AddPtr, index: Index) -> Lane:
    pointer, offset = (evaluate(c, v, index if isinstance(v.type, TensorType) else ()) for v in op.operands)
    element = memory_element(op.result.type)
    source = element_of(op.offset.type)
    if isinstance(offset, Affine | ModuloRange) and not extends_as_one(op.offset):
        offset = c.as_vector(offset, source)
    wide = _widen(c, offset, source)
    if isinstance(pointer, Uniform):
        return Address(pointer, wide, element)
    if isinstance(pointer, Address) and pointer.element == element:
        return Address(pointer.base, c.plus(pointer.offset, wide), element)
    base = c.as_vector(pointer, "ptr")
    steps = c.as_vector(wide, "i64")
    level = max(base.level, steps.level)
    many = f"<{c.lanes} x ptr>" if c.lanes > 1 else "ptr"
    each = f"<{c.lanes} x i64>" if c.lanes > 1 else "i64"
    return Vector(c.emit(level, f"getelementptr {element}, {many} {base.name}, {each} {steps.name}"), level)


def _widen(c: Context, offset: Lane, element: str) -> Offsets:
    """An offset as i64."""
    if isinstance(offset, ModuloRange):
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


def memory_element(pointers: Type) -> str:
    """The LLVM type of what pointers point at, in memory: truth values take a byte."""
    element = element_of(pointee_type(pointers.scalar))
    return "i8" if element == "i1" else element


def _bitcast(c: Context, op: Bitcast, index: Index) -> Lane:
    """Pointers keep their address; other bits are reinterpreted."""
    target = op.result.type.scalar
    if not isinstance(target, PointerType):
        return _elementwise(c, op, index)
    lane = evaluate(c, op.operand, index if isinstance(op.operand.type, TensorType) else ())
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


RULES: dict[str, Callable[[Context, Any, Index], Lane]] = {
    "arith.constant": _constant,
    "arith.select": _select,
    "cpu.read": _read,
    "tt.addptr": _add_pointer,
    "tt.bitcast": _bitcast,
    "tt.load": _load,
}
