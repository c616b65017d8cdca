"""`f.reduce(array, axis)`: a fold from the first element to the last, along one axis after the other.

    f.reduce(x)                  f(… f(f(x[0], x[1]), x[2]) …): of arrays with more axes, row by row
    f.reduce(x, axis=None)       over all elements, in C order

If other axes are innermost in memory, spans compute whole rows of the result at once; else `@fold` runs along the axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.vectorizing import arrays
from tilewright.vectorizing.build import FOLD, SPAN, Request
from tilewright.vectorizing.errors import tell
from tilewright.vectorizing.iteration import Plan, plan
from tilewright.vectorizing.kinds import Kind
from tilewright.vectorizing.operands import Array, operand, wrapped
from tilewright.vectorizing.prepared import Prepared, address_of
from tilewright.vectorizing.process import NativeSide


def reduce(function: Any, native: NativeSide, array: Any, axis: Any, *, out: Any, keepdims: bool, initial: Any) -> Any:
    """Fold an array; see `Vectorized.reduce`."""
    check(function)
    values, kind = operand(array, 0)
    axes = axes_of(axis, values.ndim)
    kept = [number for number in range(values.ndim) if number not in axes]
    moved = values.transpose([*kept, *axes])
    shape = tuple(values.shape[number] for number in kept)
    length = int(np.prod([values.shape[number] for number in axes], dtype=np.int64))
    folded = _flat(moved, shape, length)
    if initial is None and length == 0:
        raise ValueError("zero-size array to reduction operation which has no identity")
    result = _folded(function, native, folded, Kind(kind.name), initial)
    if keepdims:
        result = result.reshape([1 if number in axes else extent for number, extent in enumerate(values.shape)])
    if out is None:
        return wrapped(result, [array])
    np.copyto(arrays.target_of(out), result, casting="same_kind")
    return out


def check(function: Any) -> None:
    """Raise ValueError unless the function folds."""
    if function.nin != 2:
        raise ValueError("reduce only supports functions of two arguments")


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes to fold, sorted."""
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple) else (axis,)
    found = []
    for given in axes:
        if not -rank <= given < rank:
            raise np.exceptions.AxisError(given, rank)
        found.append(given % rank)
    if len(set(found)) < len(found):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(found))


def _flat(moved: Array, shape: tuple[int, ...], length: int) -> Array:
    """The folded axes as the last one."""
    return moved.reshape((*shape, length))


def _folded(function: Any, native: NativeSide, values: Array, kind: Kind, initial: Any) -> Array:
    request = Request(FOLD, (kind, kind))
    code = function.code(request)
    total = np.empty(values.shape[:-1], np.dtype(code.result.name))
    if initial is None:
        np.copyto(total, values[..., 0], casting="unsafe")
        values = values[..., 1:]
    else:
        total[...] = initial
    if not values.size:
        return total
    if values.ndim > 1 and values.strides[-1] > min(map(abs, values.strides[:-1])) and total.size >= _WIDE:
        return _row_by_row(function, native, values, total, kind)
    shape = values.shape
    extents = shape if len(shape) > 0 else (1,)
    going = Plan(tuple(extents), ((*total.strides, 0), tuple(values.strides)))
    sizes = [total.itemsize, values.itemsize]
    prepared = Prepared(code, going, sizes, may_repeat=False, cost=function.cost(request))
    flags = prepared.run(native, [address_of(total), address_of(values)])
    if flags:
        tell(flags, depth=5)
    return total


_WIDE = 16
"""Min number of results that are worth computing side by side."""


def _row_by_row(function: Any, native: NativeSide, values: Array, total: Array, kind: Kind) -> Array:
    """The folded axis outermost, on one thread: every row of elements is combined with the whole result so far."""
    shape = (values.shape[-1], *total.shape)
    moved = np.moveaxis(values, -1, 0)
    steps = (0, *total.strides)
    order = [0, *sorted(range(1, len(shape)), key=lambda axis: -abs(moved.strides[axis]))]
    going = plan(shape, order, [steps, moved.strides], steps)
    sizes = [total.itemsize, values.itemsize, total.itemsize]
    request = Request(SPAN, (Kind(total.dtype.name), kind), going.pattern(sizes))
    code = function.code(request)
    prepared = Prepared(code, going, sizes, may_repeat=False, cost=function.cost(request))
    flags = prepared.run(native, [address_of(total), address_of(moved), address_of(total)], threads=1)
    if flags:
        tell(flags)
    return total
