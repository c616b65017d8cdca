"""NVIDIA GPUs for programs without torch: arrays in their memory, streams, events, and facts.

    from tilewright import cuda

    x, out = cuda.copy(numpy_array), cuda.empty(1000)
    kernel[grid](x, out, 1000, BLOCK=256)       # on the GPU that the arrays are on
    out.numpy()

Arrays of torch, CuPy, Numba or JAX on a GPU can be passed to kernels as they are.
"""

from __future__ import annotations

from tilewright.runtime.drivers.cuda import streams as _streams
from tilewright.runtime.drivers.cuda.arrays import DeviceArray, copy, empty, zeros
from tilewright.runtime.drivers.cuda.device import CudaDevice, cuda_device, device_count
from tilewright.runtime.drivers.cuda.library import is_installed
from tilewright.runtime.drivers.cuda.streams import Event as _Event
from tilewright.runtime.drivers.cuda.streams import Stream as _Stream
from tilewright.runtime.drivers.cuda.streams import current, use_device
from tilewright.runtime.errors import CudaError, MissingDriverError

__all__ = [
    "CudaDevice",
    "CudaError",
    "DeviceArray",
    "MissingDriverError",
    "copy",
    "current_stream",
    "device",
    "device_count",
    "empty",
    "event",
    "is_available",
    "stream",
    "synchronize",
    "use_device",
    "zeros",
]


def is_available() -> bool:
    """Whether there is a driver and a GPU."""
    try:
        return device_count() > 0
    except CudaError:
        return False


def has_gpu() -> bool:
    """Whether torch has a GPU or, where the program has not imported torch, the machine.

    Programs that are to go on without a GPU make torch say that it has one; without a driver it has none.
    """
    if _streams.imported_torch() is None:
        return is_available()
    return _streams.torch_with_gpus() is not None and is_installed()


def device(ordinal: int | None = None) -> CudaDevice:
    """A GPU by its number, or the current one: `name`, `model`, `capability`, `total_memory`, `properties()` …

    Args:
        ordinal: the number of the GPU, from 0; None is the current one.

    Raises:
        CudaError: there is no driver, or no such GPU.
    """
    return cuda_device(ordinal)


def stream(ordinal: int | None = None) -> _Stream:
    """A new stream of a GPU: `with stream: …` makes it the current one, and launches take it as `stream=`.

    Args:
        ordinal: the number of the GPU, from 0; None is the current one.

    Raises:
        CudaError: there is no driver, or no such GPU.
    """
    return _Stream(cuda_device(ordinal))


def current_stream(ordinal: int | None = None) -> _Stream:
    """The stream that launches and copies go to when they do not say.

    Args:
        ordinal: the number of the GPU, from 0; None is the current one.

    Raises:
        CudaError: there is no driver, or no such GPU.
    """
    gpu = cuda_device(ordinal)
    return _Stream(gpu, current(gpu.ordinal))


def event(ordinal: int | None = None) -> _Event:
    """A new event of a GPU.

    Args:
        ordinal: the number of the GPU, from 0; None is the current one.

    Raises:
        CudaError: there is no driver, or no such GPU.
    """
    return _Event(cuda_device(ordinal))


def synchronize(ordinal: int | None = None) -> None:
    """Wait for all work of a GPU.

    Args:
        ordinal: the number of the GPU, from 0; None is the current one.

    Raises:
        CudaError: some of it failed.
    """
    cuda_device(ordinal).synchronize()
