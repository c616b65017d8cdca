"""Creation and reshaping of tiles: arange, full, reshape, join, permute, …"""

from __future__ import annotations

import builtins
from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.language.tuples import tuple
from tilewright.semantics import shapes
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast as broadcast_pair
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.tile import Tile


def program_id(axis: Any) -> Any:
    """The index of this program along grid axis 0, 1 or 2, an int32 scalar.

    Args:
        axis: a constant.
    """
    return shapes.program_id(axis)


def num_programs(axis: Any) -> Any:
    """The number of programs along grid axis 0, 1 or 2, an int32 scalar.

    Args:
        axis: a constant.
    """
    return shapes.num_programs(axis)


def arange(start: Any, end: Any) -> Any:
    """The int32 values `start … end - 1`; both are constants and their distance is a power of two.

    Args:
        start, end: constants.

    Raises:
        SemanticError: the distance is no power of two.
    """
    return shapes.arange(start, end)


def full(shape: Any, value: Any, dtype: Any) -> Any:
    """A tile of `shape` and `dtype` with `value` (number or scalar) in every element; `()` gives a scalar.

    Args:
        shape: extents, powers of two.
        value: a number or a scalar.
        dtype: the element type.
    """
    return shapes.full(shape, value, dtype)


def cat(input: Any, other: Any, can_reorder: bool = False, dim: Any = 0) -> Any:
    """Both tiles one after the other along `dim`; with `can_reorder` in any order of the elements.

    Args:
        input, other: tiles of equal shape and element type.
        can_reorder: the order of the elements does not matter.
        dim: the axis that grows.
    """
    return shapes.cat(input, other, unwrap(dim), can_reorder=bool(can_reorder))


def broadcast(input: Any, other: Any) -> tuple:
    """Both tiles stretched to their common shape.

    Args:
        input, other: tiles or numbers whose shapes broadcast as NumPy's do.
    """
    return tuple(broadcast_pair(to_tensor(input), to_tensor(other)))


def broadcast_to(input: Any, *shape: Any) -> Any:
    """`input` stretched to `shape`, given as one sequence or as several numbers.

    Args:
        input: a tile or a scalar.
        shape: the new extents; those of `input` are equal to them or 1.
    """
    return shapes.broadcast_shape(input, _one_sequence(shape))


def expand_dims(input: Any, axis: Any) -> Any:
    """`input` with axes of extent 1 at `axis` (a position or several) of the result.

    Args:
        input: a tile or a scalar.
        axis: a position, or several.
    """
    return shapes.expand(input, axis)


def reshape(input: Any, *shape: Any, can_reorder: bool = False) -> Any:
    """The elements in another shape, given as one sequence or as several numbers.

    Args:
        input: a tile.
        shape: extents with the same product.
        can_reorder: the order of the elements does not matter.
    """
    return shapes.reshape(input, _one_sequence(shape), allow_reorder=bool(can_reorder))


def view(input: Any, *shape: Any) -> Any:
    """`reshape` that may reorder the elements (deprecated in Triton).

    Args:
        input: a tile.
        shape: extents with the same product.
    """
    return shapes.reshape(input, _one_sequence(shape), allow_reorder=True)


def permute(input: Any, *dims: Any) -> Any:
    """The axes in the order `dims`, given as one sequence or as several numbers.

    Args:
        input: a tile.
        dims: every axis once.
    """
    return shapes.permute(input, _one_sequence(dims))


def trans(input: Any, *dims: Any) -> Any:
    """The last two axes swapped, or the axes in the order `dims`.

    Args:
        input: a tile.
        dims: every axis once, or nothing.
    """
    return shapes.permute(input, _one_sequence(dims)) if dims else shapes.transpose(input)


def join(a: Any, b: Any) -> Any:
    """Both tiles side by side on a new last axis of extent 2.

    Args:
        a, b: tiles or numbers, which broadcast; of one element type.
    """
    return shapes.join(a, b)


def split(a: Any) -> tuple:
    """The two halves of a tile whose last extent is 2.

    Args:
        a: a tile.
    """
    return tuple(shapes.split(a))


def gather(src: Any, index: Any, axis: Any) -> Any:
    """The elements of the tile `src` at `index` along `axis`.

    Args:
        src: a tile.
        index: an integer tile with as many axes; each element is below the extent of `src` along `axis`.
        axis: a constant.

    Returns:
        A tile in the shape of `index`.
    """
    return shapes.gather(src, index, axis)


def _one_sequence(values: builtins.tuple[Any, ...]) -> Any:
    """The arguments of a call that takes either one sequence or several numbers."""
    first = unwrap_all(values[0]) if len(values) == 1 else None
    return first if isinstance(first, builtins.tuple) and not isinstance(first, Tile) else values


accept_semantic(globals())
