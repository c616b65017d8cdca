"""Operations on elements, and operations that combine elements: where, maximum, reduce, dot, …"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from tilewright.language.core import accept_semantic
from tilewright.language.tuples import tuple
from tilewright.semantics import arithmetic, casting, comparison, math, reductions
from tilewright.semantics import dot as products
from tilewright.semantics import shapes as shape_semantics
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument
from tilewright.semantics.tile import Tile
from tilewright.support.deprecation import warn_deprecated
from tilewright.support.diagnostics import SemanticError


class PropagateNan(Enum):
    """The rule of minimum, maximum and clamp for one NaN: NONE returns the number, ALL returns NaN."""

    NONE = 0
    ALL = 0xFFFF


def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Any:
    """`input` converted to `dtype`, or with `bitcast` the same bits under `dtype`.

    Args:
        input: a tile or number.
        dtype: the new element type.
        fp_downcast_rounding: `rtne` or `rtz`, for conversions to a narrower float.
        bitcast: reinterpret instead of convert.
    """
    tile, target = arithmetic.to_tensor(input), unwrap(dtype)
    if bitcast:
        return casting.bitcast(tile, target)
    return casting.cast(tile, target, rounding=unwrap(fp_downcast_rounding))


def to_tensor(x: Any) -> Any:
    """A Python number as a scalar of the smallest type that holds it; tiles as they are.

    Args:
        x: a number, or a tile.
    """
    return arithmetic.to_tensor(x)


def add(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """`x + y`; when debugging, integers are asserted not to overflow unless `sanitize_overflow` is false.

    Args:
        x, y: tiles or numbers, which broadcast and promote.
        sanitize_overflow: False: when debugging, integers may overflow here.
    """
    return arithmetic.add(x, y, sanitize_overflow=bool(sanitize_overflow))


def sub(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """`x - y`; when debugging, integers are asserted not to overflow unless `sanitize_overflow` is false.

    Args:
        x, y: tiles or numbers, which broadcast and promote.
        sanitize_overflow: False: when debugging, integers may overflow here.
    """
    return arithmetic.sub(x, y, sanitize_overflow=bool(sanitize_overflow))


def mul(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """`x * y`; when debugging, integers are asserted not to overflow unless `sanitize_overflow` is false.

    Args:
        x, y: tiles or numbers, which broadcast and promote.
        sanitize_overflow: False: when debugging, integers may overflow here.
    """
    return arithmetic.mul(x, y, sanitize_overflow=bool(sanitize_overflow))


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, else `y`; both are computed.

    Args:
        condition: a tile of truth values.
        x, y: tiles or numbers; all three broadcast, and `x` and `y` promote.
    """
    return comparison.where(condition, unwrap(x), unwrap(y))


def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """The smaller element; `propagate_nan` decides about NaN.

    Args:
        x, y: tiles or numbers, which broadcast and promote.
        propagate_nan: `tl.PropagateNan.ALL` gives NaN where either is NaN; NONE, the default, gives the number.
    """
    return arithmetic.minimum(x, y, propagate_nan=_propagates(propagate_nan))


def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """The larger element; `propagate_nan` decides about NaN.

    Args:
        x, y: tiles or numbers, which broadcast and promote.
        propagate_nan: `tl.PropagateNan.ALL` gives NaN where either is NaN; NONE, the default, gives the number.
    """
    return arithmetic.maximum(x, y, propagate_nan=_propagates(propagate_nan))


def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """`x` kept between `min` and `max`.

    Args:
        x: a tile of floats.
        min, max: tiles or numbers, which broadcast.
        propagate_nan: as for `tl.maximum`.
    """
    return math.clamp(x, min, max, propagate_nan=_propagates(propagate_nan))


def _propagates(chosen: Any) -> bool:
    choice = unwrap(chosen)
    if not isinstance(choice, PropagateNan):
        raise SemanticError(BadArgument("maximum/minimum/clamp", "propagate_nan", choice, "a tl.PropagateNan"))
    return choice is PropagateNan.ALL


def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
    trans_a: Any = False,
    trans_b: Any = False,
) -> Any:
    """The matrix product `input @ other + acc`.

    Args:
        input, other: tiles M × K and K × N of one element type, or with the same leading extent, a batch.
        acc: a tile M × N that the product is added to; 0 by default.
        input_precision: for fp32: `ieee`, or `tf32`, `tf32x3` and their like, which a CPU computes as `ieee`.
        allow_tf32: an older way to say it: True is `tf32`, False `ieee`.
        max_num_imprecise_acc: for fp8 on some GPUs: after how many products sums are taken over to fp32.
        out_dtype: the element type of the result: fp32 by default, for fp64 and integers fp64 and int32.
        trans_a, trans_b: deprecated: `tl.trans` of the operand instead.

    What older Tritons had in their places still works, with a warning: `trans_a` and `trans_b` transpose an operand,
    and a truth value as third or fourth argument is `allow_tf32`.

    Raises:
        SemanticError: both `input_precision` and `allow_tf32` are given, or operands do not fit.
    """
    input, other = _transposed_if("trans_a", trans_a, input), _transposed_if("trans_b", trans_b, other)
    acc, precision, tf32 = _placed_flag(unwrap(acc), unwrap(input_precision), unwrap(allow_tf32))
    if tf32 is not None:
        if precision is not None:
            raise SemanticError(BadArgument("dot", "allow_tf32", tf32, "either allow_tf32 or input_precision"))
        precision = "tf32" if tf32 else "ieee"
    return products.dot(
        input,
        other,
        acc,
        precision=precision,
        imprecise_acc=unwrap(max_num_imprecise_acc),
        out_dtype=unwrap(out_dtype),
    )


def _transposed_if(option: str, wanted: Any, operand: Any) -> Any:
    """An operand, transposed if an option of Triton 2.0 says so."""
    if not unwrap(wanted):
        return operand
    warn_deprecated(f"tl.dot(…, {option}=True)", "tl.trans(…) around the operand")
    return shape_semantics.permute(operand, (1, 0))


def _placed_flag(acc: Any, precision: Any, tf32: Any) -> builtins.tuple[Any, Any, Any]:
    """`acc`, `input_precision` and `allow_tf32`, which was once the third argument, and later the fourth."""
    for place, flag in (("third", acc), ("fourth", precision)):
        if isinstance(flag, bool):
            warn_deprecated(f"allow_tf32 as {place} argument of tl.dot", "allow_tf32=…")
            return None if flag is acc else acc, None, flag
    return acc, precision, tf32


def reduce(input: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False) -> Any:
    """Fold a tile, or several at once, along `axis` (None: everything) with `combine_fn`.

    Args:
        input: a tile, or a tuple of tiles of equal shape.
        axis: which axis disappears.
        combine_fn: takes as many left and right scalars as there are tiles and returns as many; it must be associative
            and commutative, as vectors and threads combine elements in any order. A scan keeps the order.
        keep_dims: keep the axis with extent 1.
    """
    tiles = input if isinstance(input, (builtins.tuple, list)) else (input,)
    results: Sequence[Tile] = reductions.reduce(tiles, unwrap(axis), combine_fn)
    if keep_dims:
        results = [_with_kept_axes(result, unwrap(axis), len(tiles[0].type.shape)) for result in results]
    return tuple(results) if isinstance(input, (builtins.tuple, list)) else results[0]


def _with_kept_axes(result: Tile, axis: Any, rank: int) -> Tile:
    axes = builtins.tuple(range(rank)) if axis is None else axis
    return shape_semantics.expand(result, axes)


def associative_scan(input: Any, axis: Any, combine_fn: Callable[..., Any], reverse: Any = False) -> Any:
    """All prefixes of a tile, or several at once, along `axis`, folded with `combine_fn`; suffixes with `reverse`.

    Args:
        input: a tile, or a tuple of tiles of equal shape.
        axis: along which prefixes are formed.
        combine_fn: takes as many left and right scalars as there are tiles and returns as many; it must be associative.
        reverse: from the end to the beginning.

    Returns:
        A tile of the same shape, or a tuple of them.
    """
    tiles = input if isinstance(input, (builtins.tuple, list)) else (input,)
    results = reductions.scan(tiles, unwrap(axis), combine_fn, reverse=bool(reverse))
    return tuple(results) if isinstance(input, (builtins.tuple, list)) else results[0]


def histogram(input: Any, num_bins: Any, mask: Any = None) -> Any:
    """The counts of `0 … num_bins - 1` in a one-dimensional tile, where `mask` holds.

    Args:
        input: a tile of integers with one axis.
        num_bins: a constant, a power of two.
        mask: a tile of truth values: which elements count.

    Returns:
        An int32 tile of `num_bins` elements.
    """
    return reductions.histogram(input, num_bins, unwrap(mask))


def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """`scalar_fn` of each element, or of `pack` neighbours along the last axis at a time.

    On a CPU every branch of the function is computed, for all elements at once, and loops run until the last element
    is done.

    Args:
        scalar_fn: takes `pack` scalars of the first tile, then of the next …; returns `pack` of each result.
        args: tiles, which broadcast.
        pack: a power of two.

    Returns:
        One tile, or a tuple of them if `scalar_fn` returns a tuple.
    """
    results = reductions.map_elements([arithmetic.to_tensor(arg) for arg in args], scalar_fn, unwrap(pack))
    return tuple(results) if isinstance(results, builtins.tuple) else results


accept_semantic(globals())
