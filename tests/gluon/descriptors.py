"""Arrays as Gluon's descriptors on the host want them."""

from __future__ import annotations

import numpy as np

from tilewright.compat.gluon import TensorDescriptor
from tilewright.gluon import language as gl


class Tensor:
    """An array with the methods of a tensor."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.__array_interface__ = array.__array_interface__

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def element_size(self) -> int:
        return self.array.itemsize

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


def described(array: np.ndarray, block: list[int], layout: gl.NVMMASharedLayout) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(Tensor(array), block, layout)


def aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Zeros that begin at a multiple of 16 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 16, np.uint8)
    start = -memory.ctypes.data % 16
    return memory[start : start + size].view(dtype).reshape(shape)
