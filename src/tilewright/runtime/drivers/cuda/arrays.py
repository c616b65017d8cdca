"""Arrays in the memory of GPUs, for programs without torch; `tilewright.cuda` is this, for users.

    x = copy(np.arange(1000, dtype=np.float32))       # to the current GPU
    out = empty(1000, np.float32)
    add[grid](x, x, out, 1000, BLOCK=256)
    out.numpy()                                       # waits, then copies back

Copies and launches are ordered by the current stream. Memory is freed with its array, after the work that uses it.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from tilewright.runtime.arrays import CUDA_MEMORY, view_of
from tilewright.runtime.drivers.cpu.launcher import know_arrays
from tilewright.runtime.drivers.cpu.native.structs import Word
from tilewright.runtime.drivers.cuda import streams
from tilewright.runtime.drivers.cuda.device import CudaDevice, cuda_device, device_of
from tilewright.runtime.drivers.cuda.gpu import Block
from tilewright.runtime.errors import ArgumentError

Shape = int | tuple[int, ...] | list[int]


class DeviceArray:
    """A contiguous array in the memory of a GPU.

    Attributes:
        shape: the extents.
        dtype: a dtype of NumPy, or of ml_dtypes.
        gpu: where it is; `device` is its name.
    """

    __slots__ = ("__weakref__", "_address", "_block", "_place", "dtype", "gpu", "shape")

    def __init__(self, shape: Shape, dtype: Any, gpu: CudaDevice) -> None:
        self.shape = tuple(map(operator.index, (shape,) if isinstance(shape, int) else shape))
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.gpu = gpu
        self._place = Word.ARRAY | Word.GPU * (gpu.ordinal + 1)
        if any(extent < 0 for extent in self.shape):
            raise ValueError(f"an extent of {self.shape} is negative")
        self._block = Block(gpu, self.nbytes)
        self._address = self._block.address

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self.device!r})"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    @property
    def device(self) -> str:
        """The name of its GPU."""
        return self.gpu.name

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 without elements."""
        return self._address

    def element_size(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def stride(self) -> tuple[int, ...]:
        """The distance of neighbours along each axis, in elements."""
        return tuple(prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array for other libraries: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, False),
            "version": 3,
            "strides": None,
            "stream": streams.current(self.gpu.ordinal) or 1,
        }

    def assign(self, source: Any) -> None:
        """Take over the elements of a NumPy array, or of an array on a GPU, of the same shape.

        Raises:
            ValueError: it has another shape.
            ArgumentError: it is no array, or of another element type.
        """
        if isinstance(source, DeviceArray):
            self._check(source.shape, source.dtype)
            self._copied("cuMemcpyDtoDAsync_v2", self._address, source._address)
            return
        content = np.ascontiguousarray(source)
        self._check(np.shape(source), content.dtype)
        self._copied("cuMemcpyHtoDAsync_v2", self._address, content.ctypes.data)
        self._wait()  # the copy may still read what is freed here

    def __setitem__(self, places: Any, source: Any) -> None:
        """`array[...] = source`: take over the elements of an array, or have all be a number.

        Raises:
            TypeError: it is about some places only.
        """
        if places is not Ellipsis:
            raise TypeError("all elements of an array on a GPU are set at once: array[...] = source")
        is_array = isinstance(source, DeviceArray | np.ndarray) and source.shape == self.shape
        self.assign(source if is_array else np.full(self.shape, source, self.dtype))

    def clone(self) -> DeviceArray:
        """A copy on the same GPU."""
        return copy(self)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in CPU memory, made after the work on the current stream.

        Raises:
            CudaError: that work failed.
        """
        result = np.empty(self.shape, self.dtype)
        self._copied("cuMemcpyDtoHAsync_v2", result.ctypes.data, self._address)
        self._wait()
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The array for NumPy, a copy: the elements are not in CPU memory."""
        if copy is False:
            raise ValueError("an array on a GPU cannot be seen from the CPU without a copy")
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def clear(self) -> None:
        """Make all bytes zero."""
        if self.nbytes:
            self.gpu.call("cuMemsetD8Async", self._address, 0, self.nbytes, streams.current(self.gpu.ordinal))

    def _check(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if shape != self.shape:
            raise ValueError(f"the elements of an array of shape {shape} do not fit into one of shape {self.shape}")
        if dtype != self.dtype:
            raise ArgumentError(f"an array of {self.dtype} cannot take over elements of {dtype}: convert them first")

    def _copied(self, function: str, target: int, source: int) -> None:
        if self.nbytes:
            self.gpu.call(function, target, source, self.nbytes, streams.current(self.gpu.ordinal))

    def _wait(self) -> None:
        self.gpu.call("cuStreamSynchronize", streams.current(self.gpu.ordinal))


know_arrays(DeviceArray, "_address", "dtype", "_place")


def empty(shape: Shape, dtype: Any = np.float32, *, device: int | None = None) -> DeviceArray:
    """An array whose elements are whatever was in the memory.

    Args:
        shape: an extent, or one per axis.
        dtype: what NumPy takes for one.
        device: the number of a GPU; the current one.

    Raises:
        CudaError: there is no GPU, or it has not so much memory.
        ValueError: an extent is negative.
    """
    return DeviceArray(shape, dtype, cuda_device(device))


def zeros(shape: Shape, dtype: Any = np.float32, *, device: int | None = None) -> DeviceArray:
    """An array of zeros.

    Args:
        shape: an extent, or one per axis.
        dtype: what NumPy takes for one.
        device: the number of a GPU; the current one.

    Raises:
        CudaError: there is no GPU, or it has not so much memory.
        ValueError: an extent is negative.
    """
    made = empty(shape, dtype, device=device)
    made.clear()
    return made


def copy(source: Any, *, device: int | None = None) -> DeviceArray:
    """A copy of an array on a GPU.

    Args:
        source: a NumPy array or what NumPy makes one of, or an array on a GPU.
        device: the number of the GPU of the copy; that of the source, or the current one.

    Raises:
        CudaError: as `empty`.
    """
    if isinstance(source, DeviceArray):
        made = empty(source.shape, source.dtype, device=source.gpu.ordinal if device is None else device)
    else:
        view = None if isinstance(source, np.ndarray) else view_of(source)
        if view is not None and view.memory.startswith(CUDA_MEMORY):
            raise ArgumentError(f"the array is on {device_of(view).name} already: kernels take it as it is")
        source = np.asarray(source)
        made = empty(source.shape, source.dtype, device=device)
    made.assign(source)
    return made
