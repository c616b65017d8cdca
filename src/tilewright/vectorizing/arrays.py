"""Calls with arrays: kinds, broadcast, result, overlap, then spans over all elements.

    f(x, 2.0, out=z, where=mask)
        inputs       x float32, 2.0 a Python float, mask, and z, whose unselected elements stay
        shape        the common shape of all of them
        result       z, or a new array with the memory order of the inputs

A call like an earlier one reuses its preparation, and only fills in addresses.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.runtime.errors import ArgumentError
from tilewright.vectorizing.build import SPAN, Code, Request
from tilewright.vectorizing.errors import tell
from tilewright.vectorizing.iteration import memory_order, plan
from tilewright.vectorizing.kinds import Kind
from tilewright.vectorizing.operands import Array, Operand, as_array, is_tensor, operand, wrapped
from tilewright.vectorizing.prepared import Prepared, address_of, key_of
from tilewright.vectorizing.process import NativeSide

_NUMBERS = {bool: struct.Struct("<q"), float: struct.Struct("<d"), int: struct.Struct("<q")}
MAX_PREPARED = 256


def call(function: Any, native: NativeSide, args: Sequence[Any], *, out: Any, where: Any) -> Any:
    """Call a vectorized function with arrays; see `Vectorized.__call__`."""
    values = [_plain(value) for value in args]
    target = None if out is None else target_of(out)
    mask = None if where is True else _mask(where)
    key = key_of(values, target, mask)
    prepared = function.prepared.get(key)
    if prepared is not None:
        result = _again(prepared, native, values, target, mask)
        if result is not None:
            return out if out is not None else wrapped(result, args)
    inputs = [operand(value, position) for position, value in enumerate(values)]
    shape = _shape(inputs, mask, target)
    kinds = tuple(item.kind for item in inputs)
    arrays = [_broadcast(item.array, shape) for item in inputs]
    selected = None if mask is None else np.broadcast_to(mask, shape)
    result = compute(function, native, kinds, arrays, shape, mask=selected, target=target, key=key)
    if mask is None and _is_alike(args, inputs, result):
        function.install(inputs, result.nbytes)
    if target is None:
        return wrapped(result, args)
    if result is not target:
        np.copyto(target, result, casting="same_kind", where=True if selected is None else selected)
    return out


def _plain(value: Any) -> Any:
    """The value; tensors and NumPy's numbers as arrays."""
    return as_array(value, 0) if isinstance(value, np.generic) or is_tensor(value) else value


def _again(prepared: Prepared, native: NativeSide, values: Sequence[Any], target: Any, mask: Any) -> Array | None:
    """The result of a call that was prepared; None if it has to be looked at after all."""
    result = prepared.new() if target is None else target
    words = ctypes.create_string_buffer(8 * len(values))
    start = ctypes.addressof(words)
    addresses = []
    for number, value in enumerate(values):
        packer = _NUMBERS.get(value.__class__)
        if packer is None:
            if target is not None and not _may_be_written(value, target):
                return None
            addresses.append(address_of(value))
        else:
            try:
                packer.pack_into(words, 8 * number, value)
            except struct.error:
                return None
            addresses.append(start + 8 * number)
    if mask is not None:
        if target is not None and not _may_be_written(mask, target):
            return None
        addresses += [address_of(mask), address_of(result)]
    flags = prepared.run(native, [*addresses, address_of(result)])
    if flags:
        tell(flags)
    return result


def compute(
    function: Any,
    native: NativeSide,
    kinds: tuple[Kind, ...],
    arrays: list[Array],
    shape: tuple[int, ...],
    *,
    mask: Array | None = None,
    target: Array | None = None,
    key: Any = None,
) -> Array:
    """Every element of the broadcast: in the target, or in a new array if there is none of the right dtype.

    Args:
        function: the vectorized function.
        native: the native side.
        kinds, arrays: of the arguments, broadcast to `shape`.
        shape: of the result.
        mask: which elements to compute, broadcast.
        target: where to.
        key: what calls like this one have in common.
    """
    if target is not None:
        apart = [array if _may_be_written(array, target) else array.copy() for array in arrays]
        selected = mask if mask is None or _may_be_written(mask, target) else mask.copy()
        if selected is not mask or any(left is not right for left, right in zip(apart, arrays, strict=True)):
            key = None
        arrays, mask = apart, selected
    order, steps, size = memory_order(shape, arrays), None, 1
    if target is not None:
        order, steps, size = memory_order(shape, [target]), target.strides, target.itemsize
    inputs = arrays if mask is None else [*arrays, mask]
    going = plan(shape, order, [array.strides for array in inputs], steps)
    letters = going.pattern([*(array.itemsize for array in inputs), size])
    request = Request(SPAN, kinds, letters if mask is None else f"{letters}{letters[-1]}", mask is not None)
    code: Code = function.code(request)
    dtype = np.dtype(code.result.name)
    if target is not None and target.dtype != dtype:
        return compute(function, native, kinds, arrays, shape, mask=mask)
    going = going.with_result(1 if target is not None else dtype.itemsize, twice=mask is not None)
    sizes = [*(array.itemsize for array in inputs), *[dtype.itemsize] * (1 if mask is None else 2)]
    prepared = Prepared(code, going, sizes, may_repeat=target is None, cost=function.cost(request))
    prepared.shape, prepared.dtype = shape, dtype
    prepared.order = None if order == sorted(order) else order
    result = target if target is not None else prepared.new()
    if not result.size:
        return result
    if key is not None and len(function.prepared) < MAX_PREPARED:
        function.prepared[key] = prepared
    twice = [result] if mask is None else [result, result]
    flags = prepared.run(native, [_start(array) for array in (*inputs, *twice)])
    if flags:
        tell(flags)
    return result


def _start(array: Array) -> int:
    start: int = array.__array_interface__["data"][0]
    return start


def target_of(out: Any) -> Array:
    """The array behind `out=`.

    Raises:
        ValueError: it must not be written.
    """
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


def _may_be_written(array: Array, target: Array) -> bool:
    """Whether the target can be written without changing an element of the array before it is read."""
    if array is target or not np.may_share_memory(array, target):
        return True
    same_structure = array.strides == target.strides and array.itemsize == target.itemsize
    return same_structure and array.shape == target.shape and _start(array) == _start(target)


def _is_alike(args: Sequence[Any], inputs: Sequence[Operand], result: Array) -> bool:
    """Whether native code can do such a call by itself the next time."""
    arrays = [item.array for item in inputs if not item.kind.weak]
    if not arrays or not result.shape or not result.size:
        return False
    exact = all(item.kind.weak or value.__class__ is np.ndarray for value, item in zip(args, inputs, strict=True))
    same = all(array.shape == result.shape and array.dtype.isnative for array in arrays)
    in_order = all(a.flags.c_contiguous for a in arrays) or all(a.flags.f_contiguous for a in arrays)
    return exact and same and in_order
