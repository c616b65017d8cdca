"""Packed arithmetic: one instruction of a thread computes two elements.

    packed.add2(x, y)          add.f32x2 %rd3, %rd1, %rd2;
    packed.fma2(x, 2.0, y)     fma.rn.f32x2 …

All tiles have elements of one type: float16, bfloat16 (since sm_90), or float32 (since sm_100, without `min2` and
`max2`). A thread has an even number of elements.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.ir.attributes import Keyword
from tilewright.language.core import accept_semantic
from tilewright.semantics.broadcasting import stretch
from tilewright.semantics.buffers import require
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.distributed import distributed_type
from tilewright.semantics.shapes import full
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import bfloat16, float16, float32

HALVES = (float16, bfloat16)
ELEMENTS = {"min": HALVES, "max": HALVES, **dict.fromkeys(("add", "sub", "mul", "fma"), (*HALVES, float32))}
"""The types of elements that an operation takes."""


def add2(lhs: Any, rhs: Any, dtype: Any = None) -> Any:
    """`lhs + rhs`.

    Args:
        lhs, rhs: tiles, at least one of them, and numbers or scalars.
        dtype: the type of the elements; that of the tiles.
    """
    return _packed("add", (lhs, rhs), dtype)


def sub2(lhs: Any, rhs: Any, dtype: Any = None) -> Any:
    """`lhs - rhs`; arguments as for `add2`."""
    return _packed("sub", (lhs, rhs), dtype)


def mul2(lhs: Any, rhs: Any, dtype: Any = None) -> Any:
    """`lhs * rhs`; arguments as for `add2`."""
    return _packed("mul", (lhs, rhs), dtype)


def fma2(lhs: Any, rhs: Any, acc: Any, dtype: Any = None) -> Any:
    """`lhs * rhs + acc`, rounded once; arguments as for `add2`."""
    return _packed("fma", (lhs, rhs, acc), dtype)


def min2(lhs: Any, rhs: Any, dtype: Any = None) -> Any:
    """The smaller element, that which is no NaN; arguments as for `add2`."""
    return _packed("min", (lhs, rhs), dtype)


def max2(lhs: Any, rhs: Any, dtype: Any = None) -> Any:
    """The larger element, that which is no NaN; arguments as for `add2`."""
    return _packed("max", (lhs, rhs), dtype)


def _packed(operation: str, given: tuple[Any, ...], dtype: Any) -> Tile:
    operands = [unwrap(operand) for operand in given]
    tiles = [operand for operand in operands if isinstance(operand, Tile) and _is_distributed(operand)]
    name, accepted = f"{operation}2", ELEMENTS[operation]
    require(tiles, f"{name} wants a tile with a layout among its operands")
    like = max(tiles, key=lambda tile: prod(tile.type.shape)).type
    for kind in (*(tile.dtype for tile in tiles), unwrap(dtype) or like.scalar):
        one = f"elements of one type, {' or '.join(map(str, accepted))}"
        require(kind is like.scalar and kind in accepted, f"{name} takes and gives {one}; here is {kind}")
    handles = [stretch(_element(operand, like.scalar), like).handle for operand in operands]
    return build("ttng.packed_arith", handles, like, {"op_kind": Keyword(operation)})


def _is_distributed(tile: Tile) -> bool:
    return isinstance(tile.type, distributed_type)


def _element(operand: Any, element: Any) -> Tile:
    """A tile as it is, a scalar or a number as a scalar of this type."""
    if not isinstance(operand, Tile):
        return full((), operand, element)
    return operand if operand.type.shape else cast(operand, element)


accept_semantic(globals())
