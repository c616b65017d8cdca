"""A call with arrays: kinds, broadcast, result, overlap, then spans over all of it.

f(x, 2.0, out=z, where=mask)
    inputs       x float32, 2.0 a Python float, mask, and z: what elements that are not selected keep
    shape        that of all of them together
    result       z, or a new array whose axes lie in memory as those of the inputs do
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.runtime.errors import ArgumentError
from tilewright.vectorizing.build import SPAN, Code, Request
from tilewright.vectorizing.iteration import Spans, memory_order, plan
from tilewright.vectorizing.kinds import Kind
from tilewright.vectorizing.messages import tell
from tilewright.vectorizing.operands import Array, Operand, as_array, operand, wrapped
from tilewright.vectorizing.process import NativeSide


def call(function: Any, native: NativeSide, args: Sequence[Any], *, out: Any, where: Any) -> Any:
    """Call a vectorized function with arrays; see `Vectorized.__call__`."""
    inputs = [operand(value, position) for position, value in enumerate(args)]
    target = None if out is None else target_of(out)
    mask = None if where is True else _mask(where)
    shape = _shape(inputs, mask, target)
    kinds = tuple(item.kind for item in inputs)
    arrays = [_broadcast(item.array, shape) for item in inputs]
    selected = None if mask is None else np.broadcast_to(mask, shape)
    result = compute(function, native, kinds, arrays, shape, mask=selected, target=target)
    if out is None:
        if mask is None and _is_alike(args, inputs, result):
            function.install(inputs, result.nbytes)
        return wrapped(result, args)
    if target is not None and result is not target:
        np.copyto(target, result, casting="same_kind", where=True if selected is None else selected)
    return out


def compute(
    function: Any,
    native: NativeSide,
    kinds: tuple[Kind, ...],
    arrays: list[Array],
    shape: tuple[int, ...],
    *,
    mask: Array | None = None,
    target: Array | None = None,
) -> Array:
    """Every element of the broadcast: in the target, or in a new array if there is none of the right dtype."""
    if target is not None:
        arrays = [_apart(array, target) for array in arrays]
        mask = None if mask is None else _apart(mask, target)
    order, steps, size = memory_order(shape, arrays), None, 1
    if target is not None:
        order, steps, size = memory_order(shape, [target]), target.strides, target.itemsize
    inputs = arrays if mask is None else [*arrays, mask]
    going = plan(shape, order, [array.strides for array in inputs], steps)
    letters = going.pattern([*(array.itemsize for array in inputs), size])
    pattern = letters if mask is None else f"{letters}{letters[-1]}"
    request = Request(SPAN, kinds, pattern, mask is not None)
    code: Code = function.code(request)
    dtype = np.dtype(code.result.name)
    if target is not None and target.dtype != dtype:
        return compute(function, native, kinds, arrays, shape, mask=mask)
    result = target if target is not None else _new(shape, order, dtype)
    if result.size:
        everything = [*inputs, result] if mask is None else [*inputs, result, result]
        going = going.with_result(1 if target is not None else dtype.itemsize, twice=mask is not None)
        spans = Spans(code.address, code.lanes, going, everything, may_repeat=target is None)
        flags = spans.run(native, function.cost(request))
        if flags:
            tell(flags)
    return result


def _new(shape: tuple[int, ...], order: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A new array whose axes lie in memory in this order, the outermost first."""
    if list(order) == sorted(order):
        return np.empty(shape, dtype)
    inverse = np.argsort(order)
    return np.empty([shape[axis] for axis in order], dtype).transpose(inverse)


def target_of(out: Any) -> Array:
    """The array behind `out=`."""
    target = as_array(out, -1)
    if not target.flags.writeable:
        raise ValueError("output array is read-only")
    return target


def _mask(where: Any) -> Array:
    mask = as_array(where, -1)
    if mask.dtype != np.bool_:
        raise ArgumentError(f"where= takes bools, not {mask.dtype.name}")
    return mask


def _shape(inputs: Sequence[Operand], mask: Array | None, target: Array | None) -> tuple[int, ...]:
    shapes = [item.array.shape for item in inputs]
    if mask is not None:
        shapes.append(mask.shape)
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " ".join(map(str, shapes))
        raise ValueError(f"operands could not be broadcast together with shapes {listed}") from None
    if target is None:
        return shape
    extents = zip(reversed(shape), reversed(target.shape), strict=False)
    if len(shape) > target.ndim or any(ours not in (1, theirs) for ours, theirs in extents):
        raise ValueError(f"the output has the shape {target.shape}, the inputs broadcast to {shape}")
    return tuple(target.shape)


def _broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _apart(array: Array, target: Array) -> Array:
    """The array, or a copy if writing to the target could change an element before it is read."""
    if not np.may_share_memory(array, target):
        return array
    same_place = array.__array_interface__["data"][0] == target.__array_interface__["data"][0]
    if same_place and array.strides == target.strides and array.itemsize == target.itemsize:
        return array
    return array.copy()


def _is_alike(args: Sequence[Any], inputs: Sequence[Operand], result: Array) -> bool:
    """Is this a call that native code can do by itself the next time?"""
    arrays = [item.array for item in inputs if not item.kind.weak]
    if not arrays or not result.shape or not result.size:
        return False
    exact = all(item.kind.weak or value.__class__ is np.ndarray for value, item in zip(args, inputs, strict=True))
    same = all(array.shape == result.shape and array.dtype.isnative for array in arrays)
    in_order = all(a.flags.c_contiguous for a in arrays) or all(a.flags.f_contiguous for a in arrays)
    return exact and same and in_order
