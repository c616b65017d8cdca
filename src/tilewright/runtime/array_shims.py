"""Stand-ins for arrays: without memory, or with another element type.

kernel.warmup(MockTensor(np.float32), 1024, grid=(1,))       # compiles for arrays of fp32
kernel[grid](reinterpret(x, tl.float8e5), …)                 # the bytes of x as fp8
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class MockTensor:
    """An array of a dtype, for `warmup`: it has no memory and counts as aligned.

    Attributes:
        dtype: a dtype of NumPy, torch or the language.
        shape: its extents; one element by default.
    """

    def __init__(self, dtype: Any, shape: Sequence[int] | None = None) -> None:
        self.dtype = dtype
        self.shape = [1] if shape is None else shape

    def __repr__(self) -> str:
        return f"MockTensor({self.dtype}, shape={list(self.shape)})"

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A `MockTensor` for a dtype of torch or NumPy, or for a NumPy scalar class; anything else as it is."""
        kind = type(value)
        is_torch = kind.__name__ == "dtype" and kind.__module__ == "torch"
        is_numpy = isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic))
        return MockTensor(np.dtype(value) if is_numpy else value) if is_torch or is_numpy else value

    def stride(self) -> tuple[int, ...]:
        """Strides as Triton's class computes them: products of the trailing extents but the first."""
        strides = [1]
        for size in self.shape[1:]:
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))

    def element_size(self) -> int:
        """Bytes of one element."""
        size: int = self.dtype.itemsize
        return size

    @staticmethod
    def data_ptr() -> int:
        """An address that is a multiple of everything."""
        return 0

    @staticmethod
    def ptr_range() -> int:
        """The size of the memory, for back ends that care whether offsets fit into 32 bits."""
        return 0


class TensorWrapper:
    """A tensor whose elements count as another dtype of the same size.

    Attributes:
        dtype: what its elements count as.
        data, device, shape: the base's.
    """

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base, self.dtype = base, dtype
        self.data = base.data
        self.device = getattr(base, "device", None)
        self.shape = base.shape

    def data_ptr(self) -> int:
        """Address of the first element."""
        address: int = self.base.data_ptr() if hasattr(self.base, "data_ptr") else self.base.ctypes.data
        return address

    def stride(self, *dimension: int) -> Any:
        """The base's strides, in elements; of one dimension, if it is given."""
        if hasattr(self.base, "stride"):
            return self.base.stride(*dimension)
        strides = tuple(step // self.base.itemsize for step in self.base.strides)
        return strides[dimension[0]] if dimension else strides

    def element_size(self) -> int:
        """Bytes per element."""
        size: int = self.base.element_size() if hasattr(self.base, "element_size") else self.base.itemsize
        return size

    def cpu(self) -> TensorWrapper:
        """The same on the CPU."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """The same on another device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Take over the elements of `other`."""
        self.base.copy_(other.base)

    def clone(self) -> TensorWrapper:
        """A copy with memory of its own."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def new_empty(self, sizes: Sequence[int]) -> TensorWrapper:
        """An uninitialised tensor like this one, of another shape."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """A view of `tensor` whose elements count as `dtype`, a type of the language.

    Args:
        tensor: a torch tensor, a NumPy array or the result of an earlier call.
        dtype: an element type of the same size; the tensor's own gives the tensor back.

    Raises:
        TypeError: `tensor` is no array.

    Example:
        >>> tw.reinterpret(np.zeros(4, np.uint8), tl.float8e5).dtype
        triton.language.float8e5
    """
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if not hasattr(tensor, "data_ptr") and not isinstance(tensor, np.ndarray):
        raise TypeError(f"cannot reinterpret a {type(tensor).__name__}")
    return TensorWrapper(tensor, dtype)
