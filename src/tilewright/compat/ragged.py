"""`triton.tools.ragged_tma` on the host: descriptors of tensors whose rows stand in slices of different lengths.

desc = create_ragged_descriptor(x, [16, 64])
kernel[grid](desc, offsets, sizes)           # load_ragged(desc, offset, size, [row, column]) in the kernel
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.compat.tensor_descriptor import TensorDescriptor


class Before:
    """A tensor with as many rows in front of it as it has; nobody touches those."""

    def __init__(self, tensor: Any, axis: int) -> None:
        self.tensor, self.elements = tensor, tensor.shape[axis] * tensor.stride()[axis]
        self.dtype, self.device = tensor.dtype, tensor.device
        self.shape = [*tensor.shape[:axis], 2 * tensor.shape[axis], *tensor.shape[axis + 1 :]]

    def data_ptr(self) -> int:
        """The address of the first row in front."""
        address: int = self.tensor.data_ptr() - self.elements * self.element_size()
        return address

    def element_size(self) -> int:
        """Bytes of one element."""
        size: int = self.tensor.element_size()
        return size

    def stride(self) -> Any:
        """The strides of the tensor."""
        return self.tensor.stride()


def create_ragged_descriptor(T: Any, block_shape: Sequence[int], ragged_dim: int = 0) -> TensorDescriptor:  # noqa: N803 - Triton's name
    """The descriptor of a tensor for `load_ragged` and its like.

    Args:
        T: the tensor.
        block_shape: what one load or store moves.
        ragged_dim: the axis that has slices.

    Raises:
        AssertionError: the tensor is none that a descriptor can have.
    """
    shape, strides, axis = list(T.shape), list(T.stride()), ragged_dim % len(T.shape)
    ends, stride = shape[axis] + 1, strides[axis]
    return TensorDescriptor(Before(T, axis), [ends, *shape], [stride, *strides], [1, *block_shape])
