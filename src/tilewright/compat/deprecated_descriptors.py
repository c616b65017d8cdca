"""`triton.tools.experimental_descriptor`: descriptors of memory whose address and width of elements are known.

desc = create_2d_tma_descriptor(x.data_ptr(), M, N, 16, 32, x.element_size())
kernel[grid](desc, …)                       # tl._experimental_descriptor_load(desc, [i, j], [16, 32], tl.float16)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.compat.tensor_descriptor import TensorDescriptor
from tilewright.support.deprecation import warn_deprecated


@dataclass(frozen=True)
class Memory:
    """Elements of `bytes` bytes each from an address on; whoever made the descriptor keeps them alive."""

    address: int
    bytes: int

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The dtype of whole numbers of that width: their bits count, not what they mean."""
        return np.dtype(f"u{self.bytes}")

    def data_ptr(self) -> int:
        """The address of the first one."""
        return self.address

    def element_size(self) -> int:
        """Bytes of one."""
        return self.bytes


def create_1d_tma_descriptor(ptr: int, dim: int, block_dim: int, element_size: int) -> TensorDescriptor:
    """The descriptor of `dim` elements in a row, of `element_size` bytes each, in blocks of `block_dim`."""
    warn_deprecated("create_1d_tma_descriptor", "triton.tools.tensor_descriptor.TensorDescriptor")
    return TensorDescriptor(Memory(ptr, element_size), [dim], [1], [block_dim])


def create_2d_tma_descriptor(
    ptr: int, dim1: int, dim0: int, block_dim1: int, block_dim0: int, element_size: int
) -> TensorDescriptor:
    """The descriptor of `dim1` rows of `dim0` elements, of `element_size` bytes each, in such blocks."""
    warn_deprecated("create_2d_tma_descriptor", "triton.tools.tensor_descriptor.TensorDescriptor")
    return TensorDescriptor(Memory(ptr, element_size), [dim1, dim0], [dim0, 1], [block_dim1, block_dim0])
