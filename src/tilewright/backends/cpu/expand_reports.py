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
from tilewright.dialects.prints import print_format
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import FLOATS, FloatType, IntType, PointerType, TensorType, Type, i1, i8, i32, i64
from tilewright.support.kernel_output import operand_text

REPORTS = ("cpu.assert", "cpu.print")


def expand_reports(module: Op) -> None:
    """Replace every tt.assert and tt.print."""
    for op in list(module.walk()):
        if op.name in ("tt.reduce", "tt.scan") and any(inner.name == "tt.assert" for inner in op.regions[0].block):
            _assert_results(op)
    for op in list(module.walk()):
        if op.name == "tt.assert":
            _expand_assert(op)
        elif op.name == "tt.print":
            _expand_print(op)


# ---------------------------------------------------------------------- assertions


def _expand_assert(op: Op) -> None:
    (condition,) = op.operands
    shape = condition.type.shape
    if shape is None:
        holds, first = condition, _constant(op, 0, i32)
    else:
        holds, first = _first_failure(op, condition)
    attributes: dict[str, Attribute] = {"message": op.attributes["message"], "shape": DenseArray(i32, shape or ())}
    insert(Op.create("cpu.assert", (holds, first), (), attributes, location=op.location), op)
    op.erase()


def _first_failure(op: Op, condition: Value) -> tuple[Value, Value]:
    """Whether all elements hold, and the number of the first one that does not."""
    assert isinstance(condition.type, TensorType)
    count = condition.type.numel
    row = TensorType((count,), i32)
    flat = op_before(op, "tt.reshape", [condition], TensorType((count,), i1))
    bounds: dict[str, Attribute] = {"start": Number(0, i32), "end": Number(count, i32)}
    numbers = op_before(op, "tt.make_range", [], row, bounds)
    beyond = _constant(op, count, row)
    failing = op_before(op, "arith.select", [flat, beyond, numbers], row)
    first = op_before(op, "tt.reduce", [failing], i32, {"axis": Number(0, i32)}, [combine_region("arith.minsi", i32)])
    equal: dict[str, Attribute] = {"predicate": Keyword("eq")}
    return op_before(op, "arith.cmpi", [first, _constant(op, count, i32)], i1, equal), first


def _assert_results(op: Op) -> None:
    """Let the conditions of the combine function travel beside the values, and assert them afterwards."""
    checks = [inner for inner in op.regions[0].block if inner.name == "tt.assert"]
    first = op.operands[0].type
    assert isinstance(first, TensorType)
    held = [_constant(op, 1, TensorType(first.shape, i1)) for _ in checks]
    result = op.results[0].type
    kinds = [TensorType(result.shape, i1) if isinstance(result, TensorType) else i1 for _ in checks]
    region = Region([_combine_with_conditions(op.regions[0].block, checks)])
    types = [r.type for r in op.results] + kinds
    new = Op.create(op.name, [*op.operands, *held], types, op.attributes, [region], location=op.location)
    insert(new, op)
    for check, condition in zip(checks, new.results[len(op.results) :], strict=True):
        message: dict[str, Attribute] = {"message": check.attributes["message"]}
        insert(Op.create("tt.assert", (condition,), (), message, location=check.location), op)
    op.replace(new.results[: len(op.results)])


def _combine_with_conditions(old: Block, checks: Sequence[Op]) -> Block:
    """The combine function with one i1 more per check on each side."""
    half, count = len(old.args) // 2, len(checks)
    types = [arg.type for arg in old.args]
    block = Block([*types[:half], *[i1] * count, *types[half:], *[i1] * count])
    left, right = block.args[half : half + count], block.args[2 * half + count :]
    mapping = dict(zip(old.args, [*block.args[:half], *block.args[half + count : 2 * half + count]], strict=True))
    conditions: list[Value] = []
    for op in old:
        if op.name == "tt.assert":
            both = block.append(Op.create("arith.andi", (left[len(conditions)], right[len(conditions)]), (i1,))).result
            here = mapping.get(op.operands[0], op.operands[0])
            conditions.append(block.append(Op.create("arith.andi", (both, here), (i1,))).result)
        elif op.definition.terminator:
            returned = [mapping.get(value, value) for value in op.operands]
            block.append(Op.create(op.name, [*returned, *conditions], location=op.location))
        else:
            block.append(op.clone(mapping))
    return block


# ---------------------------------------------------------------------- prints


def _expand_print(op: Op) -> None:
    prefix, as_hex = str(op.attributes["prefix"]), op.attributes.get("hex") is True
    if not op.operands:
        insert(Op.create("cpu.print", (), (), {"text": prefix}, location=op.location), op)
    signs = op.attributes.get("isSigned")
    flags = signs.values if isinstance(signs, DenseArray) else (1,) * len(op.operands)
    for number, (value, is_signed) in enumerate(zip(op.operands, flags, strict=True)):
        element = value.type.scalar
        attributes: dict[str, Attribute] = {
            "text": operand_text(prefix, number, len(op.operands)),
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
    assert isinstance(tile.type, TensorType)
    element, shape = tile.type.element, tile.type.shape
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
    assert isinstance(tile.type, TensorType)
    buffer = op_before(op, "cpu.alloc", [], buffer_type(tile.type))
    insert(Op.create("cpu.write", (tile, buffer), location=op.location), op)
    return buffer


# ---------------------------------------------------------------------- ops


def _constant(op: Op, number: int, type: Type) -> Value:
    return op_before(op, "arith.constant", [], type, {"value": Number(number, type)})
