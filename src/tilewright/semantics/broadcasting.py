"""Shapes that meet: which shape two operands agree on, and the ops that bring them there.

(scalar, tile)            tt.splat of the scalar
(128,) with (64, 128)     tt.expand_dims {axis = 0}, tt.broadcast
(64, 1) with (1, 128)     tt.broadcast of both
"""

from __future__ import annotations

from tilewright.ir.attributes import Number
from tilewright.ir.types import i32
from tilewright.semantics.errors import CannotBroadcastTo, NotBroadcastable
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import block_type
from tilewright.support.diagnostics import SemanticError

Shape = tuple[int, ...]


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
    result = block_type(tile.type.scalar, shape)
    if not source:
        return build("tt.splat", [tile.handle], result)
    if len(source) != len(shape) or any(a not in (1, b) for a, b in zip(source, shape, strict=True)):
        raise SemanticError(CannotBroadcastTo(source, shape))
    return build("tt.broadcast", [tile.handle], result)


def stretch(tile: Tile, shape: Shape) -> Tile:
    """`broadcast_to` which also adds leading axes."""
    if tile.type.shape:
        for _ in range(len(shape) - len(tile.type.shape)):
            tile = expand_dims(tile, 0)
    return broadcast_to(tile, shape)


def broadcast(lhs: Tile, rhs: Tile) -> tuple[Tile, Tile]:
    """Both operands in their common shape."""
    left, right = lhs.type.shape, rhs.type.shape
    if left == right:
        return lhs, rhs
    shape = broadcast_shapes(left, right)
    return stretch(lhs, shape), stretch(rhs, shape)


def expand_dims(tile: Tile, axis: int) -> Tile:
    """`tile` with a new axis of extent 1 at position `axis` (0 … rank)."""
    shape = tile.type.shape
    result = block_type(tile.type.scalar, (*shape[:axis], 1, *shape[axis:]))
    if not shape:
        return build("tt.splat", [tile.handle], result)
    return build("tt.expand_dims", [tile.handle], result, {"axis": Number(axis, i32)})
