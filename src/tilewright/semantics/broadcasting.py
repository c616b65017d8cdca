"""Broadcasting: the common shape of two operands, and the ops that produce it.

(scalar, tile)            tt.splat of the scalar
(128,) with (64, 128)     tt.expand_dims {axis = 0}, tt.broadcast
(64, 1) with (1, 128)     tt.broadcast of both
"""

from __future__ import annotations

from tilewright.ir.attributes import Number
from tilewright.ir.types import Shape, i32
from tilewright.semantics.distributed import aligned_shape, common_layout, distributed_type, settled
from tilewright.semantics.errors import CannotBroadcastTo, NotBroadcastable
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import AnyType, as_block, block_type
from tilewright.support.diagnostics import SemanticError


def broadcast_shapes(left: Shape, right: Shape) -> Shape:
    """The shape both operands stretch to; the shorter one gets leading ones.

    Raises:
        SemanticError: two extents differ and neither is 1.
    """
    rank = max(len(left), len(right))
    first = (1,) * (rank - len(left)) + left
    second = (1,) * (rank - len(right)) + right
    for axis, (a, b) in enumerate(zip(first, second, strict=True)):
        if a != b and 1 not in (a, b):
            raise SemanticError(NotBroadcastable(left, right, axis))
    return tuple(b if a == 1 else a for a, b in zip(first, second, strict=True))


def broadcast_to(tile: Tile, shape: Shape) -> Tile:
    """`tile` stretched to `shape`; a scalar is repeated, and extents of 1 too.

    Raises:
        SemanticError: the ranks differ, or an extent that is neither 1 nor the wanted one.
    """
    source = tile.type.shape
    if source == shape:
        return tile
    if not source:
        return build("tt.splat", [tile.handle], block_type(tile.type.scalar, shape))
    if len(source) != len(shape) or any(a not in (1, b) for a, b in zip(source, shape, strict=True)):
        raise SemanticError(CannotBroadcastTo(source, shape))
    return build("tt.broadcast", [tile.handle], as_block(tile.type).stretched(shape))


def stretch(tile: Tile, like: AnyType) -> Tile:
    """`tile` in the shape (and layout) of `like`, also with leading axes; a scalar is repeated.

    Raises:
        SemanticError: shapes or layouts do not fit.
    """
    if not tile.type.shape:
        return build("tt.splat", [tile.handle], like.with_element_ty(tile.type.scalar)) if like.shape else tile
    if tile.type.layout is not like.layout:
        tile = settled(tile, common_layout(tile.type, like))
    if tile.type.layout is None:
        for _ in range(len(like.shape) - len(tile.type.shape)):
            tile = expand_dims(tile, 0)
    return broadcast_to(tile, like.shape)


def broadcast(lhs: Tile, rhs: Tile) -> tuple[Tile, Tile]:
    """Both operands in their common shape."""
    if lhs.type.shape == rhs.type.shape and lhs.type.layout is rhs.type.layout:
        return lhs, rhs
    like = common_type(lhs.type, rhs.type)
    lhs, rhs = settled(lhs, like.layout), settled(rhs, like.layout)
    return stretch(lhs, like), stretch(rhs, like)


def common_type(left: AnyType, right: AnyType) -> AnyType:
    """A type with the shape and layout that two operands agree on, and with any elements."""
    if not left.shape or not right.shape:
        return left if left.shape else right
    if left.layout is None and right.layout is None:
        return block_type(left.scalar, broadcast_shapes(left.shape, right.shape))
    return distributed_type(left.scalar, aligned_shape(left.shape, right.shape), common_layout(left, right))


def expand_dims(tile: Tile, axis: int) -> Tile:
    """`tile` with a new axis of extent 1 at position `axis` (0 … rank)."""
    if not tile.type.shape:
        return build("tt.splat", [tile.handle], block_type(tile.type.scalar, (1,)))
    return build("tt.expand_dims", [tile.handle], as_block(tile.type).expanded(axis), {"axis": Number(axis, i32)})
