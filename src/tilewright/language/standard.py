"""Functions written in the language itself: sum, max, argmax, softmax, cumsum, cdiv, zeros, …

They are plain Python functions over the builtins, so each front end reads them like any function of a user.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tilewright.language import math, operations, shaping
from tilewright.language.sorting import bitonic_merge as bitonic_merge
from tilewright.language.sorting import flip as flip
from tilewright.language.sorting import positions
from tilewright.language.sorting import sort as sort
from tilewright.language.sorting import topk as topk
from tilewright.semantics import arithmetic
from tilewright.semantics.casting import in_32_bits
from tilewright.semantics.comparison import compare, where
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import WrongOperandType
from tilewright.semantics.shapes import checked_axis
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import float32, int32, uint32
from tilewright.support.diagnostics import SemanticError


def cdiv(x: Any, div: Any) -> Any:
    """The quotient rounded up, for non-negative `x` and positive `div`.

    Args:
        x, div: integers: numbers, or tiles that broadcast.

    Example:
        >>> tw.cdiv(1000, 256)
        4
    """
    x, div = unwrap(x), unwrap(div)
    if not isinstance(x, Tile) and not isinstance(div, Tile):
        return (x + div - 1) // div
    return arithmetic.floordiv(arithmetic.add(x, arithmetic.sub(div, 1) if isinstance(div, Tile) else div - 1), div)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    Args:
        x: a tile of fp32 or fp64.
    """
    return 1 / (1 + math.exp(-x))


def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Any:
    """exp(x) divided by its sum along `dim`, which is 0 by default; computed without overflow.

    The result has the shape of `x`, whatever `keep_dims` says.

    Args:
        x: a tile of fp32 or fp64.
        dim: the axis of the sum.
        keep_dims: accepted as Triton accepts it.
        ieee_rounding: divide with correct rounding.
    """
    axis = checked_axis(0 if unwrap(dim) is None else dim, len(x.type.shape))
    inner = axis > 0  # leading axes come back by themselves when shapes meet
    numerator = math.exp(x - max(x, axis, keep_dims=inner))
    return math.fdiv(numerator, sum(numerator, axis, keep_dims=inner), ieee_rounding)


def ravel(x: Any, can_reorder: Any = False) -> Any:
    """All elements on one axis.

    Args:
        x: a tile.
        can_reorder: the order of the elements does not matter.
    """
    return shaping.reshape(x, [prod(x.type.shape)], can_reorder=can_reorder)


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """The place of tile (i, j) of `size_i` x `size_j`, when tiles are visited in groups of `size_g` rows.

    Within a group tiles are visited column by column, so that neighbours in time share operands.

    Args:
        i, j: row and column in the usual order, integers or scalars.
        size_i, size_j: the number of rows and of columns.
        size_g: the rows of a group.

    Returns:
        The row and the column to compute instead.
    """
    linear = i * size_j + j
    tiles_per_group = size_g * size_j
    first_row = linear // tiles_per_group * size_g
    rows = operations.minimum(size_i - first_row, size_g)
    in_group = linear % tiles_per_group
    return first_row + in_group % rows, in_group // rows


def zeros(shape: Any, dtype: Any) -> Any:
    """A tile of zeros.

    Args:
        shape: extents, powers of two.
        dtype: the element type.
    """
    return shaping.full(shape, 0, dtype)


def zeros_like(input: Any) -> Any:
    """A tile of zeros with the shape and element type of `input`.

    Args:
        input: a tile.
    """
    return shaping.full(input.type.shape, 0, input.type.scalar)


def squeeze(x: Any, dim: Any) -> Any:
    """`x` without its axis `dim` of extent 1.

    Args:
        x: a tile.
        dim: an axis of extent 1.
    """
    shape, axis = x.type.shape, checked_axis(dim, len(x.type.shape))
    return shaping.reshape(x, (*shape[:axis], *shape[axis + 1 :]))


def unsqueeze(x: Any, dim: Any) -> Any:
    """`x` with a new axis of extent 1 at `dim`.

    Args:
        x: a tile.
        dim: the place of the new axis in the result.
    """
    return shaping.expand_dims(x, dim)


def interleave(a: Any, b: Any) -> Any:
    """The elements of both tiles, alternating along the last axis.

    Args:
        a, b: tiles of equal shape and element type.
    """
    pair = shaping.join(a, b)
    shape = pair.type.shape
    return pair if len(shape) == 1 else shaping.reshape(pair, (*shape[:-2], 2 * shape[-2]))


def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Any:
    """The sum along `axis` (None: of everything), in `dtype`; integers below 32 bits add up in 32.

    Args:
        input: a tile.
        axis: which axis disappears; None folds all elements into a scalar.
        keep_dims: keep the axis with extent 1.
        dtype: the element type in which elements are added.
    """
    return operations.reduce(_for_sums(input, dtype), axis, arithmetic.add, keep_dims)


def max(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The largest element along `axis` (None: of everything), as a tuple with its index if wanted.

    Elements below 32 bits are widened to fp32 or int32 if no index is wanted. Among equal elements the first one's
    index counts.

    Args:
        input: a tile.
        axis: which axis disappears; None folds all elements into a scalar.
        return_indices: return the tuple (value, index).
        return_indices_tie_break_left: of equal elements the first one's index; False: of any.
        keep_dims: keep the axis with extent 1.
    """
    if unwrap(return_indices):
        return _with_index(input, axis, ">", keep_dims, leftmost=bool(return_indices_tie_break_left))
    return operations.reduce(in_32_bits(input), axis, operations.maximum, keep_dims)


def min(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The smallest element along `axis`; like `max` in everything else.

    Args:
        input: a tile.
        axis: which axis disappears; None folds all elements into a scalar.
        return_indices, return_indices_tie_break_left, keep_dims: as for `max`.
    """
    if unwrap(return_indices):
        return _with_index(input, axis, "<", keep_dims, leftmost=bool(return_indices_tie_break_left))
    return operations.reduce(in_32_bits(input), axis, operations.minimum, keep_dims)


def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """The index of the largest element along `axis`.

    Args:
        input: a tile.
        axis: which axis disappears.
        tie_break_left: of equal elements the first one counts; False: any.
        keep_dims: keep the axis with extent 1.

    Returns:
        An int32 tile or scalar; beside a NaN the index of any element.
    """
    return _with_index(input, axis, ">", keep_dims, leftmost=bool(tie_break_left))[1]


def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """The index of the smallest element along `axis`.

    Args:
        input: a tile.
        axis: which axis disappears.
        tie_break_left: of equal elements the first one counts; False: any.
        keep_dims: keep the axis with extent 1.

    Returns:
        An int32 tile or scalar; beside a NaN the index of any element.
    """
    return _with_index(input, axis, "<", keep_dims, leftmost=bool(tie_break_left))[1]


def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> Any:
    """The exclusive or of integers along `axis`.

    Args:
        input: a tile of integers.
        axis: which axis disappears; None folds all elements into a scalar.
        keep_dims: keep the axis with extent 1.

    Raises:
        SemanticError: elements are no integers.
    """
    return operations.reduce(_integers("xor_sum", input), axis, arithmetic.xor, keep_dims)


def reduce_or(input: Any, axis: Any, keep_dims: Any = False) -> Any:
    """The inclusive or of integers along `axis`.

    Args:
        input: a tile of integers.
        axis: which axis disappears; None folds all elements into a scalar.
        keep_dims: keep the axis with extent 1.

    Raises:
        SemanticError: elements are no integers.
    """
    return operations.reduce(_integers("reduce_or", input), axis, arithmetic.or_, keep_dims)


def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Any:
    """The running sum along `axis`; integers below 32 bits add up in 32, and bf16 in fp32, rounded at the end.

    Args:
        input: a tile.
        axis: along which sums are formed.
        reverse: from the end to the beginning.
        dtype: the element type in which elements are added.
    """
    return _running(input, axis, arithmetic.add, reverse, dtype)


def cumprod(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Any:
    """The running product along `axis`, in 32 bits for shorter integers, and in fp32, rounded at the end, for bf16.

    Args:
        input: a tile.
        axis: along which products are formed.
        reverse: from the end to the beginning.
        dtype: the element type in which elements are multiplied.
    """
    return _running(input, axis, arithmetic.mul, reverse, dtype)


def _running(tile: Any, axis: Any, combine: Callable[..., Any], reverse: Any, dtype: Any) -> Any:
    """A scan; Triton 3.9 rounds bf16 after each step, which loses the digits of sums near zero."""
    own = tile.type.scalar
    if unwrap(dtype) is None and own.is_bf16():
        return operations.cast(operations.associative_scan(operations.cast(tile, float32), axis, combine, reverse), own)
    return operations.associative_scan(_for_sums(tile, dtype), axis, combine, reverse)


def _for_sums(tile: Any, dtype: Any) -> Any:
    """`tile` in the type that its sums have."""
    wanted, own = unwrap(dtype), tile.type.scalar
    if wanted is None and own.integer and own.primitive_bitwidth < 32:
        wanted = int32 if own.signed else uint32
    return tile if wanted is None else operations.cast(tile, wanted)


def _integers(operation: str, tile: Any) -> Any:
    if not tile.type.scalar.integer:
        raise SemanticError(WrongOperandType(operation, tile.type.scalar, "integers"))
    return tile


def _with_index(tile: Any, axis: Any, relation: str, keep_dims: Any, *, leftmost: bool) -> Any:
    """The extreme element along `axis` and its index; bf16 is compared as fp32, which holds its values."""
    axis, own = unwrap(axis), tile.type.scalar
    if own.is_bf16():
        tile = operations.cast(tile, float32)
    if axis is None:
        tile, axis = shaping.reshape(tile, [prod(tile.type.shape)]), 0
    position = checked_axis(axis, len(tile.type.shape))
    extreme, index = operations.reduce(
        (tile, positions(tile, position)), position, _combine_with_index(relation, leftmost=leftmost), keep_dims
    )
    return operations.cast(extreme, own), index


def _combine_with_index(relation: str, *, leftmost: bool) -> Callable[..., tuple[Tile, Tile]]:
    """(value, index) of the better of two; among equals the smaller index if `leftmost`."""

    def better(left: Tile, left_index: Tile, right: Tile, right_index: Tile) -> tuple[Tile, Tile]:
        if leftmost:
            tie = arithmetic.and_(compare("==", left, right), compare("<", left_index, right_index))
            take_left = arithmetic.or_(compare(relation, left, right), tie)
        else:
            take_left = compare(relation, left, right)
        return where(take_left, left, right), where(take_left, left_index, right_index)

    return better
