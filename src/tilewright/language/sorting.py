"""Sorting networks over the last axis: sort, topk, bitonic_merge, flip.

A step compares each element with the one whose index differs in one bit, and keeps the smaller or the larger.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import shaping
from tilewright.semantics.active import gpu_capability
from tilewright.semantics.arithmetic import and_, xor
from tilewright.semantics.casting import in_32_bits
from tilewright.semantics.comparison import compare, where
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument, WrongOperandType
from tilewright.semantics.shapes import checked_axis
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import SemanticError


def flip(x: Any, dim: Any = None) -> Any:
    """The elements in reverse order along `dim`, by default the last axis.

    Args:
        x: a tile of numbers.
        dim: an axis.
    """
    axis = _axis("flip", x, dim)
    return shaping.gather(x, xor(positions(x, axis), x.type.shape[axis] - 1), axis)


def sort(x: Any, dim: Any = None, descending: Any = 0) -> Any:
    """The elements in order along `dim`, which must be the last axis.

    Args:
        x: a tile of numbers.
        dim: the last axis, or None.
        descending: the largest first.

    Raises:
        SemanticError: `dim` is another axis.
    """
    axis = _last_axis("sort", x, dim)
    length = x.type.shape[axis]
    size = 2
    while size <= length:
        x = _merge(x, axis, size, descending=bool(unwrap(descending)), alternating=size < length)
        size *= 2
    return x


def bitonic_merge(x: Any, dim: Any = None, descending: Any = 0) -> Any:
    """A bitonic sequence in order along `dim`, which must be the last axis.

    Args:
        x: a tile whose halves along the axis are in order, one of them backwards.
        dim: the last axis, or None.
        descending: the largest first.
    """
    axis = _last_axis("bitonic_merge", x, dim)
    return _merge(x, axis, x.type.shape[axis], descending=bool(unwrap(descending)), alternating=False)


def topk(x: Any, k: Any, dim: Any = None, descending: Any = True) -> Any:
    """The `k` largest elements (smallest unless `descending`) along the last axis, in order; k is a power of two.

    They come in 32 bits, as from `tl.max`, unless all are taken.

    Args:
        x: a tile of numbers.
        k: a constant.
        dim: the last axis, or None.
        descending: False: the smallest instead.

    Raises:
        SemanticError: `dim` is another axis, or `k` is no power of two up to its extent.
    """
    axis = _last_axis("topk", x, dim)
    length, count = x.type.shape[axis], unwrap(k)
    if not isinstance(count, int) or not 1 <= count <= length or count & (count - 1):
        raise SemanticError(BadArgument("topk", "k", count, f"a power of two up to {length}"))
    ordered = whole = sort(x, dim, descending)
    shape = ordered.type.shape
    while ordered.type.shape[-1] > count:
        half = ordered.type.shape[-1] // 2
        pairs = shaping.reshape(ordered, (*shape[:-1], 2, half))
        order = (*range(len(shape) - 1), len(shape), len(shape) - 1)
        ordered = shaping.split(shaping.permute(pairs, order))[0]
    return ordered if ordered is whole else in_32_bits(ordered)


def _merge(x: Any, axis: int, size: int, *, descending: bool, alternating: bool) -> Any:
    """Sort runs of `size` that are bitonic; `alternating` reverses every second run."""
    index = positions(x, axis)
    backwards: Any = descending
    if alternating:
        backwards = compare("!=", and_(index, size), 0)
        backwards = xor(backwards, True) if descending else backwards
    distance = size // 2
    while distance:
        x = _exchange(x, axis, index, distance, backwards)
        distance //= 2
    return x


def _exchange(x: Any, axis: int, index: Tile, distance: int, backwards: Any) -> Any:
    """Order each element and its partner at `distance`."""
    partner = shaping.gather(x, xor(index, distance), axis)
    is_upper = compare("!=", and_(index, distance), 0)
    wants_larger = xor(is_upper, backwards)
    if gpu_capability():  # registers are chosen in one instruction, conditions in three
        swaps = compare("<", where(wants_larger, x, partner), where(wants_larger, partner, x))
        return where(swaps, partner, x)
    larger = where(compare(">", partner, x), partner, x)  # one instruction each
    smaller = where(compare("<", partner, x), partner, x)
    return where(wants_larger, larger, smaller)


def positions(x: Any, axis: int) -> Tile:
    """Each element's index along `axis`, in the shape of `x`."""
    shape = x.type.shape
    index: Tile = shaping.arange(0, shape[axis])
    if len(shape) > 1:
        others = [other for other in range(len(shape)) if other != axis]
        index = shaping.broadcast_to(shaping.expand_dims(index, others), shape)
    return index


def _axis(function: str, x: Any, dim: Any) -> int:
    if x.type.scalar.is_ptr():
        raise SemanticError(WrongOperandType(function, x.type.scalar, "numbers"))
    return checked_axis(-1 if unwrap(dim) is None else dim, len(x.type.shape))


def _last_axis(function: str, x: Any, dim: Any) -> int:
    axis = _axis(function, x, dim)
    if axis != len(x.type.shape) - 1:
        raise SemanticError(BadArgument(function, "dim", axis, "the last axis"))
    return axis
