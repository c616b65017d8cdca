"""Mathematical functions of one, two or three elements.

unary_float("math.exp", x)     fp32 and fp64 only, as in Triton
clamp(x, lo, hi)               tt.clampf, or min and max for integers
extern("__tw_pow", x, y)       tt.extern_elementwise {symbol = "__tw_pow"}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.attributes import Attribute, Keyword
from tilewright.semantics import fp8e4b15
from tilewright.semantics.arithmetic import common_operands, maximum, minimum, to_tensor, typed_operands
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.errors import WrongOperandType
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import AnyType, dtype, float32, float64, int32, int64, uint32, uint64
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


def fma(x: Any, y: Any, z: Any) -> Tile:
    """`x * y + z`, rounded once."""
    a, b = common_operands(x, y, operation="fma")
    a, c = common_operands(a, z, operation="fma")
    b, c = common_operands(b, c, operation="fma")
    a, c = common_operands(a, c, operation="fma")
    if not a.type.scalar.floating:
        raise SemanticError(WrongOperandType("fma", a.type.scalar, "floats"))
    return build("math.fma", [a.handle, b.handle, c.handle], a.type)


def umulhi(x: Any, y: Any) -> Tile:
    """The high half of the product of unsigned integers."""
    a, b = typed_operands(x, y, operation="umulhi")
    check_element("umulhi", a, WIDE_INTEGERS)
    return build("tt.mulhiui", [a.handle, b.handle], a.type)


def div_rn(x: Any, y: Any) -> Tile:
    """The correctly rounded quotient of fp32 values."""
    a, b = common_operands(x, y, operation="div_rn")
    check_element("div_rn", a, (float32,))
    return build("tt.precise_divf", [a.handle, b.handle], a.type)


def clamp(x: Any, low: Any, high: Any, *, propagate_nan: bool = False) -> Tile:
    """`x` kept between `low` and `high`."""
    x, low = typed_operands(x, low, operation="clamp")
    x, high = typed_operands(x, high, operation="clamp")
    x, low = typed_operands(x, low, operation="clamp")
    low, high = broadcast(low, high)
    if not x.type.scalar.floating:
        return minimum(maximum(x, low), high)
    mode = Keyword("all" if propagate_nan else "none")
    return build("tt.clampf", [x.handle, low.handle, high.handle], x.type, {"propagateNan": mode})


def extern(symbol: str, values: Sequence[Any], *, result: dtype | None = None, library: str = "libdevice") -> Tile:
    """The library function `symbol` of each element; `result` is the element type if it is not the arguments'."""
    tiles = [to_tensor(value) for value in values]
    for position in range(1, len(tiles)):
        tiles[0], tiles[position] = common_operands(tiles[0], tiles[position], operation=symbol)
    for position in range(1, len(tiles)):
        tiles[0], tiles[position] = common_operands(tiles[0], tiles[position], operation=symbol)
    kind: AnyType = tiles[0].type if result is None else tiles[0].type.with_element_ty(result)
    attributes: dict[str, Attribute] = {"libname": library, "libpath": "", "symbol": symbol, "pure": True}
    return build("tt.extern_elementwise", [tile.handle for tile in tiles], kind, attributes)
