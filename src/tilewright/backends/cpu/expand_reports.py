"""Prints and assertions in terms of buffers and scalars, which the lowering supports anyway.

    tt.assert %c, "in range" : tensor<8x4xi1>          %i = tt.make_range 0 … 32
                                                   →   %f = tt.reduce min (arith.select %c', 32, %i)
                                                       cpu.assert(%f == 32, %f) {message = "in range", shape = 8, 4}

    tt.print " x: " : %x : tensor<8xf16>           →   %b = cpu.alloc ; cpu.write (arith.extf %x), %b
                                                       cpu.print(%b) {text = " x: ", format = "%f", shape = 8}

Buffers of prints hold f32, f64 or integers, so that readers need no rarer types. An assertion in the combine function
of a reduction or scan becomes one more operand of it, whose result is asserted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.cpu import buffer_type
from tilewright.dialects.tt_program import Assert, Print, print_format
from tilewright.dialects.tt_reduce import Fold
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.types import FLOATS, FloatType, IntType, PointerType, TensorType, i1, i8, i32, i64
from tilewright.support.kernel_output import operand_text
from tilewright.transforms.op_builder import OpBuilder

SHORTEST_ROW = 16
"""Min number of elements of a row: with fewer, a vector of a column has lanes that compute nothing."""


def expand_reports(module: Op) -> bool:
    """Replace every tt.assert and tt.print; returns whether there is one."""
    if not module.ops_of((Assert, Print)):
        return False
    for op in module.ops_of(Fold):
        if checks := [inner for inner in op.combine if isinstance(inner, Assert)]:
            _assert_results(op, checks)
    for assertion in module.ops_of(Assert):
        _expand_assert(assertion)
    for output in module.ops_of(Print):
        _expand_print(output)
    return True


# ---------------------------------------------------------------------- assertions


def _expand_assert(op: Assert) -> None:
    condition, shape = op.condition, op.condition.type.shape
    if shape is None:
        holds, first = condition, OpBuilder(op).constant(0, i32)
    else:
        holds, first = _first_failure(op, condition)
    attributes: dict[str, Attribute] = {"message": op.message, "shape": DenseArray(i32, shape or ())}
    OpBuilder(op).op("cpu.assert", (holds, first), (), attributes)
    op.erase()


def _first_failure(op: Op, condition: Value) -> tuple[Value, Value]:
    """Whether all elements hold, and the number of the first one that does not.

    The numbers get the shape of the condition, not the other way round: loops along a flat tile would find the row and
    the column of each vector. Columns are compared first, so that their masks stay what they are from row to row.
    """
    count, at = tile_type(condition).numel, OpBuilder(op)
    shape = tuple(extent for extent in tile_type(condition).shape if extent > 1)
    if len(shape) < 2 or shape[-1] < SHORTEST_ROW:
        shape = (count,)
    ends: dict[str, Attribute] = {"start": Number(0, i32), "end": Number(count, i32)}
    numbers = at.emit("tt.make_range", [], TensorType((count,), i32), ends)
    held, numbers = (at.emit("tt.reshape", [v], TensorType(shape, v.type.scalar)) for v in (condition, numbers))
    first = at.compute("arith.select", held, at.constant(count, numbers.type), numbers)
    for _ in shape:
        first = at.reduce(first, "arith.minsi", 0)
    return at.compare("eq", first, at.constant(count, i32)), first


def _assert_results(op: Fold, checks: Sequence[Assert]) -> None:
    """Let the conditions of the combine function travel beside the values, and assert them afterwards."""
    at, shape = OpBuilder(op), tile_type(op.sources[0]).shape
    held = [at.constant(1, TensorType(shape, i1)) for _ in checks]
    result = op.result.type
    kinds = [TensorType(result.shape, i1) if isinstance(result, TensorType) else i1 for _ in checks]
    region = Region([_combine_with_conditions(op.combine, len(checks))])
    types = [r.type for r in op.results] + kinds
    new = at.op(op.name, [*op.operands, *held], types, op.attributes, [region])
    for check, condition in zip(checks, new.results[len(op.results) :], strict=True):
        at.location = check.location
        at.op("tt.assert", (condition,), (), {"message": check.message})
    op.replace(new.results[: len(op.results)])


def _combine_with_conditions(old: Block, checks: int) -> Block:
    """The combine function with one i1 more per check on each side."""
    half = len(old.args) // 2
    block, mapping = Block(), dict[Value, Value]()
    conditions_of_sides: list[list[Value]] = []
    for side in (old.args[:half], old.args[half:]):
        mapping.update((arg, block.add_argument(arg.type)) for arg in side)
        conditions_of_sides.append([block.add_argument(i1) for _ in range(checks)])
    left, right = conditions_of_sides
    conditions: list[Value] = []
    for op in old:
        if isinstance(op, Assert):
            both = block.append(Op.create("arith.andi", (left[len(conditions)], right[len(conditions)]), (i1,))).result
            here = mapping.get(op.condition, op.condition)
            conditions.append(block.append(Op.create("arith.andi", (both, here), (i1,))).result)
        elif op.definition.terminator:
            returned = [mapping.get(value, value) for value in op.operands]
            block.append(Op.create(op.name, [*returned, *conditions], location=op.location))
        else:
            block.append(op.clone(mapping))
    return block


# ---------------------------------------------------------------------- prints


def _expand_print(op: Print) -> None:
    at, values, as_hex = OpBuilder(op), op.values, op.hex
    if not values:
        at.op("cpu.print", (), (), {"text": op.prefix})
    for number, (value, is_signed) in enumerate(zip(values, op.signs or (1,) * len(values), strict=True)):
        element = value.type.scalar
        attributes: dict[str, Attribute] = {
            "text": operand_text(op.prefix, number, len(values)),
            "format": print_format(element, as_hex=as_hex),
            "shape": DenseArray(i32, value.type.shape or ()),
            "signed": bool(is_signed) and not as_hex and not isinstance(element, PointerType),
        }
        buffer = _buffer_of(at, _plain(at, _as_tile(at, value), as_bits=as_hex))
        at.op("cpu.print", (buffer,), (), attributes)
    op.erase()


def _as_tile(at: OpBuilder, value: Value) -> Value:
    return value if value.type.shape is not None else at.emit("tt.splat", [value], TensorType((1,), value.type))


def _plain(at: OpBuilder, tile: Value, *, as_bits: bool) -> Value:
    """The tile as one of f32, f64 and integers."""
    element = tile_type(tile).element
    if isinstance(element, PointerType):
        return at.cast("tt.ptr_to_int", tile, i64)
    if element is i1:
        return at.cast("arith.extui", tile, i8)
    if not isinstance(element, FloatType) or (element.bits >= 32 and not as_bits):
        return tile
    if as_bits:
        return at.cast("tt.bitcast", tile, IntType(element.bits))
    return at.cast("arith.extf" if element.bits == 16 else "tt.fp_to_fp", tile, FLOATS["f32"])


def _buffer_of(at: OpBuilder, tile: Value) -> Value:
    buffer = at.emit("cpu.alloc", [], buffer_type(tile_type(tile)))
    at.op("cpu.write", (tile, buffer))
    return buffer
