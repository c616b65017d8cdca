"""Prints and assertions, in terms of buffers and scalars, which the lowering has anyway.

    tt.assert %c, "in range" : tensor<8x4xi1>          %i = tt.make_range 0 … 32
                                                   →   %f = tt.reduce min (arith.select %c', 32, %i)
                                                       cpu.assert(%f == 32, %f) {message = "in range", shape = 8, 4}

    tt.print " x: " : %x : tensor<8xf16>           →   %b = cpu.alloc ; cpu.write (arith.extf %x), %b
                                                       cpu.print(%b) {text = " x: ", format = "%f", shape = 8}

Buffers of prints hold f32, f64 or integers, so that nobody who reads them needs the rarer types. An assertion in the
combine function of a reduction or scan becomes one more operand of it, whose result is asserted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.insertion import combine_region, insert, op_before
from tilewright.dialects.cpu import buffer_type
from tilewright.dialects.tt_program import Assert, Print, print_format
from tilewright.dialects.tt_reduce import Fold
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Block, Op, Region, Value, tile_type
from tilewright.ir.types import FLOATS, FloatType, IntType, PointerType, TensorType, Type, i1, i8, i32, i64
from tilewright.support.kernel_output import operand_text


def expand_reports(module: Op) -> None:
    """Replace every tt.assert and tt.print."""
    for op in list(module.walk()):
        if isinstance(op, Fold) and (checks := [inner for inner in op.combine if isinstance(inner, Assert)]):
            _assert_results(op, checks)
    for op in list(module.walk()):
        if isinstance(op, Assert):
            _expand_assert(op)
        elif isinstance(op, Print):
            _expand_print(op)


# ---------------------------------------------------------------------- assertions


def _expand_assert(op: Assert) -> None:
    condition, shape = op.condition, op.condition.type.shape
    if shape is None:
        holds, first = condition, _constant(op, 0, i32)
    else:
        holds, first = _first_failure(op, condition)
    attributes: dict[str, Attribute] = {"message": op.message, "shape": DenseArray(i32, shape or ())}
    insert(Op.create("cpu.assert", (holds, first), (), attributes, location=op.location), op)
    op.erase()


def _first_failure(op: Op, condition: Value) -> tuple[Value, Value]:
    """Whether all elements hold, and the number of the first one that does not."""
    count = tile_type(condition).numel
    row = TensorType((count,), i32)
    flat = op_before(op, "tt.reshape", [condition], TensorType((count,), i1))
    bounds: dict[str, Attribute] = {"start": Number(0, i32), "end": Number(count, i32)}
    numbers = op_before(op, "tt.make_range", [], row, bounds)
    beyond = _constant(op, count, row)
    failing = op_before(op, "arith.select", [flat, beyond, numbers], row)
    first = op_before(op, "tt.reduce", [failing], i32, {"axis": Number(0, i32)}, [combine_region("arith.minsi", i32)])
    equal: dict[str, Attribute] = {"predicate": Keyword("eq")}
    return op_before(op, "arith.cmpi", [first, _constant(op, count, i32)], i1, equal), first


def _assert_results(op: Fold, checks: Sequence[Assert]) -> None:
    """Let the conditions of the combine function travel beside the values, and assert them afterwards."""
    shape = tile_type(op.sources[0]).shape
    held = [_constant(op, 1, TensorType(shape, i1)) for _ in checks]
    result = op.result.type
    kinds = [TensorType(result.shape, i1) if isinstance(result, TensorType) else i1 for _ in checks]
    region = Region([_combine_with_conditions(op.combine, len(checks))])
    types = [r.type for r in op.results] + kinds
    new = Op.create(op.name, [*op.operands, *held], types, op.attributes, [region], location=op.location)
    insert(new, op)
    for check, condition in zip(checks, new.results[len(op.results) :], strict=True):
        insert(Op.create("tt.assert", (condition,), (), {"message": check.message}, location=check.location), op)
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
    values, as_hex = op.values, op.hex
    if not values:
        insert(Op.create("cpu.print", (), (), {"text": op.prefix}, location=op.location), op)
    for number, (value, is_signed) in enumerate(zip(values, op.signs or (1,) * len(values), strict=True)):
        element = value.type.scalar
        attributes: dict[str, Attribute] = {
            "text": operand_text(op.prefix, number, len(values)),
            "format": print_format(element, as_hex=as_hex),
            "shape": DenseArray(i32, value.type.shape or ()),
            "signed": bool(is_signed) and not as_hex and not isinstance(element, PointerType),
        }
        buffer = _buffer_of(op, _plain(op, _as_tile(op, value), as_bits=as_hex))
        insert(Op.create("cpu.print", (buffer,), (), attributes, location=op.location), op)
    op.erase()


def _as_tile(op: Op, value: Value) -> Value:
    return value if value.type.shape is not None else op_before(op, "tt.splat", [value], TensorType((1,), value.type))


def _plain(op: Op, tile: Value, *, as_bits: bool) -> Value:
    """The tile as one of f32, f64 and integers."""
    type = tile_type(tile)
    element, shape = type.element, type.shape
    if isinstance(element, PointerType):
        return op_before(op, "tt.ptr_to_int", [tile], TensorType(shape, i64))
    if element is i1:
        return op_before(op, "arith.extui", [tile], TensorType(shape, i8))
    if not isinstance(element, FloatType) or (element.bits >= 32 and not as_bits):
        return tile
    if as_bits:
        return op_before(op, "tt.bitcast", [tile], TensorType(shape, IntType(element.bits)))
    widening = "arith.extf" if element.bits == 16 else "tt.fp_to_fp"
    return op_before(op, widening, [tile], TensorType(shape, FLOATS["f32"]))


def _buffer_of(op: Op, tile: Value) -> Value:
    buffer = op_before(op, "cpu.alloc", [], buffer_type(tile_type(tile)))
    insert(Op.create("cpu.write", (tile, buffer), location=op.location), op)
    return buffer


# ---------------------------------------------------------------------- ops


def _constant(op: Op, number: int, type: Type) -> Value:
    return op_before(op, "arith.constant", [], type, {"value": Number(number, type)})
