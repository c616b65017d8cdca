"""Arithmetic on tiles: promote, cast, broadcast, emit.

pid * 128 + offsets      arith.muli, tt.splat, arith.addi
x / 3                    arith.divf in fp32 for integers and halves
ptr + offsets            tt.splat, tt.addptr
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.attributes import Keyword
from tilewright.semantics.active import active, context
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import (
    BadArgument,
    NegativeMeetsUnsigned,
    NumberAsTruth,
    NumberOutOfRange,
    PointerMeetsPointer,
    WrongOperandType,
)
from tilewright.semantics.promotion import dtype_of_number, number_as, promote
from tilewright.semantics.tile import Tile, build, constant
from tilewright.semantics.types import AnyType, dtype, float8e4b15, float16, float32, int1, int64, pointer_type
from tilewright.support.diagnostics import NotSupported, SemanticError

Pair = tuple[Tile, Tile]


def to_tensor(value: Any) -> Tile:
    """`value` as a tile; a Python number becomes a scalar constant of the smallest type that holds it."""
    if isinstance(value, Tile):
        return value
    number = unwrap(value)
    kind = dtype_of_number(number)
    return constant(number_as(number, kind), kind)


def common_operands(lhs: Any, rhs: Any, *, operation: str, division: bool = False) -> Pair:
    """Both operands in their common element type and shape.

    Raises:
        SemanticError: a pointer, types without a common one, shapes that do not broadcast, a number out of range.
    """
    if isinstance(lhs, Tile):
        if not isinstance(rhs, Tile):
            return _with_number(lhs, unwrap(rhs), operation=operation, division=division, number_first=False)
    elif isinstance(rhs, Tile):
        number, tile = _with_number(rhs, unwrap(lhs), operation=operation, division=division, number_first=True)
        return number, tile
    else:
        lhs, rhs = to_tensor(lhs), to_tensor(rhs)
    left, right = lhs.type.scalar, rhs.type.scalar
    if isinstance(left, pointer_type) or isinstance(right, pointer_type):
        raise SemanticError(WrongOperandType(operation, left if left.is_ptr() else right, "numbers"))
    if left is not right or left is float8e4b15 or (division and left.floating):
        wanted = promote(left, right, division=division)
        lhs, rhs = cast(lhs, wanted), cast(rhs, wanted)
    return broadcast(lhs, rhs)


def _with_number(tile: Tile, number: Any, *, operation: str, division: bool, number_first: bool) -> Pair:
    """A tile and a Python number, which becomes a constant of the tile's shape."""
    own = tile.type.scalar
    if isinstance(own, pointer_type):
        raise SemanticError(WrongOperandType(operation, own, "numbers"))
    wanted = promote(own, dtype_of_number(number), right_is_number=True, division=division)
    if not wanted.floating:
        check_number(number, wanted)
    if wanted is not own:
        tile = cast(tile, wanted)
    other = constant(number_as(number, wanted), tile.type)
    return (other, tile) if number_first else (tile, other)


def check_number(number: int, wanted: dtype) -> None:
    """Refuse a number that integers of a type do not hold.

    Raises:
        SemanticError: it is out of range.
    """
    if number < 0 and not wanted.signed:
        raise SemanticError(NegativeMeetsUnsigned(number, wanted))
    if not wanted.get_int_min_value() <= number <= wanted.get_int_max_value():
        raise SemanticError(NumberOutOfRange(number, wanted))


def is_pointer(value: Any) -> bool:
    """Whether a value is a pointer, or a tile of pointers."""
    return isinstance(value, Tile) and isinstance(value.type.scalar, pointer_type)


def add(lhs: Any, rhs: Any, *, sanitize_overflow: bool = True) -> Tile:
    """`lhs + rhs`; a pointer moves by elements."""
    if is_pointer(lhs):
        return _advance_pointer(lhs, rhs)
    if is_pointer(rhs):
        return _advance_pointer(rhs, lhs)
    return _arithmetic("add", "+", lhs, rhs, checked=sanitize_overflow)


def _arithmetic(name: str, operation: str, lhs: Any, rhs: Any, *, checked: bool) -> Tile:
    """`lhs operation rhs`; `checked` integers are asserted to fit the exact result when debugging."""
    a, b = common_operands(lhs, rhs, operation=operation)
    kind = a.type.scalar
    if checked and not kind.floating and kind.primitive_bitwidth < 64 and context().checks_overflow:
        _assert_fit(name, a, b)
    return build(f"arith.{name}{'f' if kind.floating else 'i'}", [a.handle, b.handle], a.type)


def _assert_fit(operation: str, a: Tile, b: Tile) -> None:
    kind = a.type.scalar
    wide = a.type.with_element_ty(int64)
    exact = build(f"arith.{operation}i", [cast(a, int64).handle, cast(b, int64).handle], wide)
    truths = a.type.with_element_ty(int1)
    bounds = (("sle", kind.get_int_max_value()), ("sge", kind.get_int_min_value()))
    below, above = (
        build("arith.cmpi", [exact.handle, constant(bound, wide).handle], truths, {"predicate": Keyword(predicate)})
        for predicate, bound in bounds
    )
    fits = build("arith.andi", [below.handle, above.handle], truths)
    message = f"int{kind.primitive_bitwidth} overflow detected for operation {operation}"
    active().emit("tt.assert", [fits.handle], (), {"message": message})


def _advance_pointer(pointer: Tile, offset: Any) -> Tile:
    steps = to_tensor(offset)
    kind = steps.type.scalar
    if isinstance(kind, pointer_type):
        raise SemanticError(PointerMeetsPointer(pointer.type, steps.type))
    if not kind.integer:
        raise SemanticError(WrongOperandType("pointer + offset", kind, "an integer offset"))
    if not kind.signed and kind.primitive_bitwidth < 64:
        steps = cast(steps, int64)
    pointer, steps = broadcast(pointer, steps)
    return build("tt.addptr", [pointer.handle, steps.handle], pointer.type)


def sub(lhs: Any, rhs: Any, *, sanitize_overflow: bool = True) -> Tile:
    """`lhs - rhs`; a pointer moves back by elements."""
    if is_pointer(lhs):
        if is_pointer(rhs):
            raise SemanticError(PointerMeetsPointer(lhs.type, rhs.type))
        return add(lhs, minus(to_tensor(rhs)))
    return _arithmetic("sub", "-", lhs, rhs, checked=sanitize_overflow)


def mul(lhs: Any, rhs: Any, *, sanitize_overflow: bool = True) -> Tile:
    """`lhs * rhs`."""
    return _arithmetic("mul", "*", lhs, rhs, checked=sanitize_overflow)


def truediv(lhs: Any, rhs: Any) -> Tile:
    """`lhs / rhs` in floating point; integers and halves are divided in fp32."""
    a, b = common_operands(lhs, rhs, operation="/", division=True)
    if not a.type.scalar.floating:
        a, b = cast(a, float32), cast(b, float32)
    return build("arith.divf", [a.handle, b.handle], a.type)


def floordiv(lhs: Any, rhs: Any) -> Tile:
    """`lhs // rhs` of integers, rounded towards zero as C does."""
    a, b = common_operands(lhs, rhs, operation="//", division=True)
    kind = _integer(a, "//")
    return build("arith.divsi" if kind.signed else "arith.divui", [a.handle, b.handle], a.type)


def mod(lhs: Any, rhs: Any) -> Tile:
    """`lhs % rhs`, with the sign of `lhs` as in C."""
    a, b = common_operands(lhs, rhs, operation="%", division=True)
    kind = a.type.scalar
    if kind.floating:
        return build("arith.remf", [a.handle, b.handle], a.type)
    return build("arith.remsi" if kind.signed else "arith.remui", [a.handle, b.handle], a.type)


def fdiv(lhs: Any, rhs: Any, *, rounded: bool = False, approximate: bool = False) -> Tile:
    """Division of floats, halves in fp32; `rounded` asks for the correctly rounded result.

    Raises:
        SemanticError: no float among the operands, or `approximate` for anything but fp32.
    """
    if rounded and approximate:
        raise SemanticError(BadArgument("fdiv", "approx", True, "either approx or ieee_rounding"))
    a, b = common_operands(lhs, rhs, operation="fdiv", division=True)
    if not a.type.scalar.floating or (approximate and a.type.scalar is not float32):
        raise SemanticError(WrongOperandType("fdiv", a.type.scalar, "fp32" if approximate else "floats"))
    return build("tt.precise_divf" if rounded else "arith.divf", [a.handle, b.handle], a.type)


def minus(tile: Tile) -> Tile:
    """`-tile`; that of a float flips the sign, so that `-0.0` differs from `0.0`."""
    kind = tile.type.scalar
    if isinstance(kind, pointer_type):
        raise SemanticError(WrongOperandType("unary -", kind, "a number"))
    if kind is float8e4b15:
        return minus(cast(tile, float16))
    if kind.floating:
        return build("arith.negf", [tile.handle], tile.type)
    return sub(constant(0, tile.type), tile)


def plus(_tile: Tile) -> Tile:
    """`+tile`, which Triton does not have."""
    raise SemanticError(NotSupported("unary `+` of a tile", "it changes nothing: leave it out"))


def _integer(tile: Tile, operation: str) -> dtype:
    kind = tile.type.scalar
    if not kind.integer:
        raise SemanticError(WrongOperandType(operation, kind, "integers"))
    return kind


def _bitwise(name: str, operation: str, lhs: Any, rhs: Any) -> Tile:
    a, b = common_operands(lhs, rhs, operation=operation)
    _integer(a, operation)
    return build(name, [a.handle, b.handle], a.type)


def and_(lhs: Any, rhs: Any) -> Tile:
    """`lhs & rhs` of integers or booleans."""
    return _bitwise("arith.andi", "&", lhs, rhs)


def or_(lhs: Any, rhs: Any) -> Tile:
    """`lhs | rhs` of integers or booleans."""
    return _bitwise("arith.ori", "|", lhs, rhs)


def xor(lhs: Any, rhs: Any) -> Tile:
    """`lhs ^ rhs` of integers or booleans."""
    return _bitwise("arith.xori", "^", lhs, rhs)


def shl(lhs: Any, rhs: Any) -> Tile:
    """`lhs << rhs`."""
    return _bitwise("arith.shli", "<<", lhs, rhs)


def shr(lhs: Any, rhs: Any) -> Tile:
    """`lhs >> rhs`; the sign bit is repeated when the left operand that is a tile is signed."""
    tile = lhs if isinstance(lhs, Tile) else rhs
    signed = tile.type.scalar.signed if isinstance(tile, Tile) else True
    return _bitwise("arith.shrsi" if signed else "arith.shrui", ">>", lhs, rhs)


def invert(tile: Tile) -> Tile:
    """`~tile` of integers or booleans."""
    kind = _integer(tile, "~")
    ones = constant(True if kind is int1 else -1, tile.type)
    return build("arith.xori", [tile.handle, ones.handle], tile.type)


def logical_and(tile: Any, other: Any) -> Tile:
    """`tile and other` per element, of booleans and pointers."""
    return and_(_truth(tile, "and"), _truth(other, "and"))


def logical_or(tile: Any, other: Any) -> Tile:
    """`tile or other` per element, of booleans and pointers."""
    return or_(_truth(tile, "or"), _truth(other, "or"))


def logical_not(tile: Tile) -> Tile:
    """`not tile` per element, of booleans and pointers."""
    return invert(_truth(tile, "not"))


def _truth(value: Any, operation: str) -> Tile:
    tile = to_tensor(value)
    if tile.type.scalar is not int1 and not is_pointer(tile):
        raise SemanticError(NumberAsTruth(operation, tile.type))
    return to_bool(tile)


def to_bool(tile: Tile) -> Tile:
    """`tile` as booleans."""
    return cast(tile, int1)


def minimum(lhs: Any, rhs: Any, *, propagate_nan: bool = False) -> Tile:
    """The smaller element; of a number and NaN the number, or NaN with `propagate_nan`."""
    return _extremum("min", lhs, rhs, propagate_nan=propagate_nan)


def maximum(lhs: Any, rhs: Any, *, propagate_nan: bool = False) -> Tile:
    """The larger element; of a number and NaN the number, or NaN with `propagate_nan`."""
    return _extremum("max", lhs, rhs, propagate_nan=propagate_nan)


def _extremum(which: str, lhs: Any, rhs: Any, *, propagate_nan: bool) -> Tile:
    a, b = common_operands(lhs, rhs, operation=f"{which}imum")
    kind = a.type.scalar
    if kind.floating:
        suffix = "imumf" if propagate_nan else "numf"
    else:
        suffix = "si" if kind.signed else "ui"
    return build(f"arith.{which}{suffix}", [a.handle, b.handle], a.type)


def scalar_or_tile(value: Any, target: dtype, like: AnyType) -> Tile:
    """`value` (number or tile) converted to elements of `target`; a number takes the shape of `like` at once."""
    if isinstance(value, Tile):
        return cast(value, target)
    return constant(number_as(unwrap(value), target), like.with_element_ty(target))
