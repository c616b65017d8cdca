"""Mathematical functions of one, two or three elements, and elementwise inline assembly.

unary_float("math.exp", x)     fp32 and fp64 only, as in Triton
clamp(x, lo, hi)               tt.clampf, or min and max for integers
extern("__tw_pow", x, y)       tt.extern_elementwise {symbol = "__tw_pow"}
inline_assembly("shl.b32 $0, $1, 3;", "=r,r", [x], [int32], pure=True, packed=1)      tt.elementwise_inline_asm
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tilewright.dialects.tt_elementwise import CLOCK
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.types import i32
from tilewright.semantics import fp8e4b15
from tilewright.semantics.active import active
from tilewright.semantics.arithmetic import (
    check_number,
    common_operands,
    maximum,
    minimum,
    scalar_or_tile,
    to_tensor,
)
from tilewright.semantics.broadcasting import common_type, stretch
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import WrongOperandType
from tilewright.semantics.promotion import dtype_of_number, promote
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import dtype, float32, float64, int32, int64, uint32, uint64
from tilewright.support.diagnostics import SemanticError

WIDE_FLOATS = (float32, float64)
WIDE_INTEGERS = (int32, int64, uint32, uint64)


def unary_float(name: str, value: Any, *, accepted: Sequence[dtype] = WIDE_FLOATS) -> Tile:
    """The op `name` on `value`, whose elements must be of one of the `accepted` types."""
    tile = to_tensor(value)
    check_element(name.partition(".")[2], tile, accepted)
    return build(name, [tile.handle], tile.type)


def check_element(operation: str, tile: Tile, accepted: Sequence[dtype]) -> None:
    """Raise unless the elements of `tile` are of an `accepted` type."""
    if tile.type.scalar not in accepted:
        raise SemanticError(WrongOperandType(operation, tile.type.scalar, " or ".join(map(str, accepted))))


def _check_tiles(operation: str, operands: Sequence[Any], accepted: Sequence[dtype]) -> None:
    """Raise unless those of the operands that are tiles are of an `accepted` type: they are not converted."""
    for operand in operands:
        if isinstance(operand, Tile):
            check_element(operation, operand, accepted)


def absolute(value: Any) -> Tile:
    """The value without its sign."""
    tile = to_tensor(value)
    kind = tile.type.scalar
    if kind.is_fp8e4b15():
        return fp8e4b15.without_sign(tile)
    if kind.floating:
        return build("math.absf", [tile.handle], tile.type)
    if not kind.integer:
        raise SemanticError(WrongOperandType("abs", kind, "a number"))
    return build("math.absi", [tile.handle], tile.type) if kind.signed else tile


def leading_zeros(tile: Tile) -> Tile:
    """The number of zeros above the highest one of each integer, in its type; all bits for 0."""
    return build("math.ctlz", [tile.handle], tile.type)


def set_bits(tile: Tile) -> Tile:
    """The number of bits that are 1 in each integer, in its type."""
    return build("math.ctpop", [tile.handle], tile.type)


def fma(x: Any, y: Any, z: Any) -> Tile:
    """`x * y + z`, rounded once."""
    a, b, c = _alike("fma", (x, y, z))
    if not a.type.scalar.floating:
        raise SemanticError(WrongOperandType("fma", a.type.scalar, "floats"))
    return build("math.fma", [a.handle, b.handle, c.handle], a.type)


def umulhi(x: Any, y: Any) -> Tile:
    """The high half of the product of unsigned integers."""
    _check_tiles("umulhi", (x, y), WIDE_INTEGERS)
    a, b = common_operands(x, y, operation="umulhi")
    check_element("umulhi", a, WIDE_INTEGERS)
    return build("tt.mulhiui", [a.handle, b.handle], a.type)


def div_rn(x: Any, y: Any) -> Tile:
    """The correctly rounded quotient of fp32 values."""
    _check_tiles("div_rn", (x, y), (float32,))
    a, b = common_operands(x, y, operation="div_rn")
    check_element("div_rn", a, (float32,))
    return build("tt.precise_divf", [a.handle, b.handle], a.type)


def clamp(x: Any, low: Any, high: Any, *, propagate_nan: bool = False) -> Tile:
    """`x` kept between `low` and `high`; numbers adapt to the tiles among the three."""
    x, low, high = _alike("clamp", (x, low, high))
    if not x.type.scalar.floating:
        return minimum(maximum(x, low), high)
    mode = Keyword("all" if propagate_nan else "none")
    return build("tt.clampf", [x.handle, low.handle, high.handle], x.type, {"propagateNan": mode})


def _alike(operation: str, operands: Sequence[Any]) -> tuple[Tile, ...]:
    """All operands in one element type and shape: the common one of the tiles, to which the numbers adapt."""
    values = [unwrap(operand) for operand in operands]
    tiles = [value.type.scalar for value in values if isinstance(value, Tile)]
    numbers = [dtype_of_number(value) for value in values if not isinstance(value, Tile)]
    kind = reduce(promote, tiles or numbers)
    if kind.is_ptr():
        raise SemanticError(WrongOperandType(operation, kind, "numbers"))
    if tiles and numbers:
        kind = promote(kind, reduce(promote, numbers), right_is_number=True)
    if kind.integer:
        for value in values:
            if not isinstance(value, Tile):
                check_number(value, kind)
    types = [value.type for value in values if isinstance(value, Tile)]
    like = reduce(common_type, types) if types else kind
    return tuple(stretch(scalar_or_tile(value, kind, like), like) for value in values)


def extern(symbol: str, values: Sequence[Any]) -> Tile:
    """The library function `symbol` of each element, which has the element type of the arguments."""
    tiles = [to_tensor(value) for value in values]
    for position in 2 * [*range(1, len(tiles))]:
        tiles[0], tiles[position] = common_operands(tiles[0], tiles[position], operation=symbol)
    attributes: dict[str, Attribute] = {"libname": "libdevice", "libpath": "", "symbol": symbol, "pure": True}
    return build("tt.extern_elementwise", [tile.handle for tile in tiles], tiles[0].type, attributes)


def library_call(symbol: str, tiles: Sequence[Tile], result: dtype) -> Tile:
    """The function `symbol` of another library, which is the device's; `tiles` have one shape."""
    attributes: dict[str, Attribute] = {"libname": "", "libpath": "", "symbol": symbol, "pure": True}
    handles = [tile.handle for tile in tiles]
    return build("tt.extern_elementwise", handles, tiles[0].type.with_element_ty(result), attributes)


def inline_assembly(
    text: str, constraints: str, values: Sequence[Any], results: Sequence[dtype], *, pure: bool, packed: int
) -> list[Tile]:
    """The results of `text` for each element, or for `packed` at a time; see `tl.inline_asm_elementwise`.

    Only GPUs have assembly of their own; of any text but the clock the kernel is one for a GPU.
    """
    tiles = [to_tensor(value) for value in values]
    like = reduce(common_type, [tile.type for tile in tiles]) if tiles else int32
    tiles = [stretch(tile, like) for tile in tiles]
    types = [like.with_element_ty(kind) for kind in results]
    attributes: dict[str, Attribute] = {
        "asm_string": text,
        "constraints": constraints,
        "packed_element": Number(packed, i32),
        "pure": pure,
    }
    operands = [tile.handle for tile in tiles]
    found = active().emit("tt.elementwise_inline_asm", operands, tuple(type.ir for type in types), attributes)
    return [Tile.concrete(value, type) for value, type in zip(found, types, strict=True)]


def clock() -> Tile:
    """Nanoseconds since some time in the past, an int64 scalar."""
    return inline_assembly(CLOCK, "=l", [], [int64], pure=False, packed=1)[0]
