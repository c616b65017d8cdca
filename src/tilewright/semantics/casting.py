"""Conversions between element types.

cast(fp32 tile, float16)      arith.truncf
cast(fp16 tile, float8e5)     tt.fp_to_fp {rounding = rtne}
cast(int32 tile, int1)        arith.cmpi ne, 0
cast(int8 tile, uint8)        no op: the IR has no sign
"""

from __future__ import annotations

from tilewright.ir.attributes import Attribute, Keyword
from tilewright.semantics import fp8e4b15
from tilewright.semantics.errors import BadArgument, NoWayBetween, WrongOperandType
from tilewright.semantics.tile import Tile, build, constant, retyped
from tilewright.semantics.types import (
    AnyType,
    bfloat16,
    block_type,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    pointer_type,
)
from tilewright.support.diagnostics import SemanticError

ROUNDINGS = ("rtne", "rtz")


def cast(tile: Tile, target: AnyType, *, rounding: str | None = None) -> Tile:
    """`tile` with its elements converted to `target` (only its element type counts).

    Args:
        tile: what to convert.
        target: the new element type.
        rounding: `rtne` or `rtz`, only for conversions to a narrower float.

    Raises:
        SemanticError: there is no such conversion, or a rounding where none happens.
    """
    source, wanted = tile.type.scalar, target.scalar
    if source is wanted:
        return tile
    if rounding is not None:
        _check_rounding(source, wanted, rounding)
    result = tile.type.with_element_ty(wanted)
    if isinstance(source, pointer_type) or isinstance(wanted, pointer_type):
        return _cast_pointer(tile, source, wanted, result)
    if source.floating:
        return _from_float(tile, source, wanted, result, rounding)
    if wanted.floating:
        return _integer_to_float(tile, source, wanted, result)
    if source.integer and wanted.integer:
        return _between_integers(tile, source, wanted, result)
    raise SemanticError(WrongOperandType("cast", source, f"a number, to convert it to {wanted}"))


def in_32_bits(tile: Tile) -> Tile:
    """Narrower elements as fp32 or int32; others as they are."""
    own = tile.type.scalar
    return tile if own.primitive_bitwidth >= 32 else cast(tile, float32 if own.floating else int32)


def bitcast(tile: Tile, target: AnyType) -> Tile:
    """The same bits as `target`, whose elements must have the same width."""
    source, wanted = tile.type.scalar, target.scalar
    if source is wanted:
        return tile
    result = tile.type.with_element_ty(wanted)
    if source.ir is wanted.ir:
        return retyped(tile, result)
    if isinstance(source, pointer_type) != isinstance(wanted, pointer_type):
        return cast(tile, target)
    if source.primitive_bitwidth != wanted.primitive_bitwidth:
        raise SemanticError(
            WrongOperandType("bitcast", source, f"{wanted.primitive_bitwidth} bits, as many as {wanted} has")
        )
    return build("tt.bitcast", [tile.handle], result)


def is_nonzero(tile: Tile) -> Tile:
    """`tile != 0` as a boolean; NaN counts as true."""
    source = tile.type.scalar
    zero = constant(0.0 if source.floating else 0, tile.type)
    name, predicate = ("arith.cmpf", "une") if source.floating else ("arith.cmpi", "ne")
    return build(name, [tile.handle, zero.handle], tile.type.with_element_ty(int1), {"predicate": Keyword(predicate)})


def _check_rounding(source: dtype, wanted: dtype, rounding: str) -> None:
    if rounding not in ROUNDINGS:
        raise SemanticError(BadArgument("cast", "fp_downcast_rounding", rounding, " or ".join(ROUNDINGS)))
    narrows = source.floating and wanted.floating and wanted.primitive_bitwidth < source.primitive_bitwidth
    if not narrows:
        raise SemanticError(
            BadArgument("cast", "fp_downcast_rounding", rounding, f"no rounding: {source} to {wanted} is not narrowing")
        )


def _from_float(tile: Tile, source: dtype, wanted: dtype, result: AnyType, rounding: str | None) -> Tile:
    if not wanted.floating:
        return _float_to_integer(tile, source, wanted, result)
    if source.is_fp8e4b15():
        return cast(fp8e4b15.widened(tile), wanted)
    if wanted.is_fp8e4b15():
        return fp8e4b15.narrowed(_half_towards_zero(tile))
    narrows = wanted.primitive_bitwidth < source.primitive_bitwidth
    if source.is_fp8() or wanted.is_fp8() or (narrows and rounding == "rtz"):
        attributes: dict[str, Attribute] = {"rounding": Keyword(rounding or "rtne")} if narrows else {}
        return build("tt.fp_to_fp", [tile.handle], result, attributes)
    if source.primitive_bitwidth == 16 and wanted is not float32:
        return cast(cast(tile, float32), wanted)
    return build("arith.truncf" if narrows else "arith.extf", [tile.handle], result)


def _half_towards_zero(tile: Tile) -> Tile:
    source = cast(tile, float32) if tile.type.scalar is bfloat16 else tile
    widens = source.type.scalar.primitive_bitwidth <= 16
    return cast(source, float16, rounding=None if widens else "rtz")


def _float_to_integer(tile: Tile, source: dtype, wanted: dtype, result: AnyType) -> Tile:
    if source.is_fp8():
        raise SemanticError(NoWayBetween(source, wanted))
    if source is not float32 and source is not float64:
        return cast(cast(tile, float32), wanted)
    if wanted is int1:
        return is_nonzero(tile)
    return build("arith.fptosi" if wanted.signed else "arith.fptoui", [tile.handle], result)


def _integer_to_float(tile: Tile, source: dtype, wanted: dtype, result: AnyType) -> Tile:
    if wanted.is_fp8():
        raise SemanticError(NoWayBetween(source, wanted))
    return build("arith.sitofp" if source.signed else "arith.uitofp", [tile.handle], result)


def _between_integers(tile: Tile, source: dtype, wanted: dtype, result: AnyType) -> Tile:
    if wanted is int1:
        return is_nonzero(tile)
    growth = wanted.primitive_bitwidth - source.primitive_bitwidth
    if growth == 0:
        return retyped(tile, result)
    if growth < 0:
        return build("arith.trunci", [tile.handle], result)
    return build("arith.extsi" if source.signed else "arith.extui", [tile.handle], result)


def _cast_pointer(tile: Tile, source: dtype, wanted: dtype, result: AnyType) -> Tile:
    if any(isinstance(type, pointer_type) and isinstance(type.element_ty, block_type) for type in (source, wanted)):
        raise SemanticError(WrongOperandType("cast", source, "a number or a pointer to one: blocks have no address"))
    if isinstance(source, pointer_type) and isinstance(wanted, pointer_type):
        return retyped(tile, result) if source.ir is wanted.ir else build("tt.bitcast", [tile.handle], result)
    if wanted is int1:
        return is_nonzero(cast(tile, int64))
    if wanted.integer and wanted.primitive_bitwidth == 64:
        return build("tt.ptr_to_int", [tile.handle], result)
    if source.integer:
        return build("tt.int_to_ptr", [_wide(tile).handle], result)
    raise SemanticError(WrongOperandType("cast", source, f"a 64-bit integer on the other side, not {wanted}"))


def _wide(tile: Tile) -> Tile:
    return tile if tile.type.scalar.primitive_bitwidth == 64 else cast(tile, int64)
