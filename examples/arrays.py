"""Functions that let the examples take NumPy arrays and torch tensors alike.

out = empty_like(x, (4, 5), "int32")      # a NumPy array if x is one, a torch tensor if x is one
strides(x)                                # in elements
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = Any
"""A NumPy array or a torch CPU tensor."""


def is_torch(array: Array) -> bool:
    """Whether `array` is a torch tensor; never imports torch."""
    return type(array).__module__.partition(".")[0] == "torch"


def empty_like(array: Array, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Array:
    """A new array of the kind of `array`, by default with its shape and element type; `dtype` is a name as "int32"."""
    shape = tuple(array.shape) if shape is None else shape
    if is_torch(array):
        return array.new_empty(shape, dtype=getattr(sys.modules["torch"], dtype) if dtype else array.dtype)
    return np.empty(shape, dtype or array.dtype)


def zeros_like(array: Array, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> Array:
    """The same, filled with zeros."""
    made = empty_like(array, shape, dtype)
    made[...] = 0
    return made


def strides(array: Array) -> tuple[int, ...]:
    """Steps between neighbours along each axis, in elements."""
    if is_torch(array):
        return tuple(array.stride())
    return tuple(step // array.itemsize for step in array.strides)


def dtype_name(array: Array) -> str:
    """The element type's name, such as "float32"."""
    return str(array.dtype).removeprefix("torch.")


def numpy_of(array: Array, dtype: str = "float64") -> np.ndarray:
    """A copy as NumPy array of `dtype`, for checking."""
    if is_torch(array):
        return np.asarray(array.detach().to(getattr(sys.modules["torch"], dtype)).numpy())
    return np.asarray(array).astype(dtype)


def largest_error(array: Array, expected: Array) -> float:
    """The largest absolute difference, 0.0 for empty arrays."""
    return float(np.abs(numpy_of(array) - numpy_of(expected)).max(initial=0.0))


def require(condition: bool, message: str) -> None:
    """Raise ValueError with `message` unless `condition` holds."""
    if not condition:
        raise ValueError(message)
