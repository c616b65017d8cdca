"""`triton.reinterpret`: a tensor whose elements kernels see under another type.

reinterpret(torch.zeros(8, dtype=torch.int8), tl.float8e5)     # what torch cannot say, or not in this version
"""

from __future__ import annotations

from typing import Any


class TensorWrapper:
    """A tensor under another element type; kernels take it as they take tensors.

    Attributes:
        base: the tensor.
        dtype: the element type of the language.
        data, device, shape: those of the tensor.
    """

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base, self.dtype = base, dtype
        self.data, self.device, self.shape = base.data, base.device, base.shape

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.base.data_ptr())

    def stride(self, *axis: int) -> Any:
        """The strides, or that of one axis, in elements."""
        return self.base.stride(*axis)

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.base.element_size())

    def numel(self) -> int:
        """How many elements there are."""
        return int(self.base.numel())

    def copy_(self, other: TensorWrapper) -> None:
        """Take over the elements of another tensor of this type."""
        self.base.copy_(other.base)

    def cpu(self) -> TensorWrapper:
        """The tensor in the CPU's memory."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def clone(self) -> TensorWrapper:
        """A copy."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """The tensor on `device`."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        """A tensor of this type with nothing in it yet."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """`tensor` under the element type `dtype`: the same memory.

    Raises:
        TypeError: it is no tensor.
    """
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if not hasattr(tensor, "data_ptr"):
        raise TypeError(f"only tensors can be reinterpreted, and this is a {type(tensor).__name__}")
    return TensorWrapper(tensor, dtype)
