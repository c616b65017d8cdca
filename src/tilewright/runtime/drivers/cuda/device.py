"""GPUs as devices of launches: found by their number, or by an array in their memory.

device = cuda_device()                  # the current one
device.target                           # GPUTarget("cuda", 90, 32)
device_of(view_of(cuda_tensor))         # where the tensor is
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int, c_uint64
from typing import Any

from tilewright.backends.base import GPUTarget
from tilewright.runtime.arrays import CPU_MEMORY, CUDA_MEMORY, ArrayView
from tilewright.runtime.devices import Device, Figures
from tilewright.runtime.drivers.cpu.launcher import Specialization
from tilewright.runtime.drivers.cuda import launching, streams, structs
from tilewright.runtime.drivers.cuda.gpu import Gpu
from tilewright.runtime.drivers.cuda.launching import load
from tilewright.runtime.drivers.cuda.library import CudaDriver, cuda_driver, open_driver


class CudaDevice(Gpu, Device):
    """A GPU that kernels are launched on."""

    remedy = "pass a copy of it, such as tensor.cuda() or tilewright.cuda.copy(array)"

    def __init__(self, driver: CudaDriver, ordinal: int) -> None:
        super().__init__(driver, ordinal)
        self.target = GPUTarget("cuda", 10 * self.capability[0] + self.capability[1], structs.WARP)

    @property
    def identity(self) -> str:
        """The same for GPUs of one model."""
        return f"{self.model} {self.target}"

    def can_use(self, view: ArrayView) -> bool:
        """Whether kernels can use an array: memory of GPUs, and what torch has pinned."""
        if view.memory != CPU_MEMORY:
            return view.memory.startswith(CUDA_MEMORY)
        is_pinned = getattr(view.owner, "is_pinned", None)
        return is_pinned is not None and bool(is_pinned())

    def current_stream(self) -> int:
        """torch's current stream where torch has GPUs; else ours."""
        return streams.current(self.ordinal)

    def load(self, kernel: Any) -> Figures:
        """Load a kernel's code; see `loading.load`."""
        return load(self, kernel)

    def unload(self, figures: Figures) -> None:
        """Give the code back; what is running is waited for by the driver."""
        self.release("cuModuleUnload", figures.module)

    def launch(
        self, kernel: Any, grid: tuple[int, int, int], values: Sequence[int | float | ArrayView], stream: int | None
    ) -> None:
        """Launch from Python; see `launching.launch`."""
        launching.launch(self, kernel, grid, values, stream)

    def specialization(
        self, kernel: Any, values: Sequence[int | float | ArrayView], stream: int | None
    ) -> Specialization | None:
        """Let later launches do without Python; see `launching.specialization`."""
        return launching.specialization(self, kernel, values, stream)


def device_count() -> int:
    """The number of GPUs.

    Raises:
        CudaError: there is no driver, or it does not work.
    """
    return cuda_driver().get("cuDeviceGetCount", c_int)


_devices: dict[tuple[CudaDriver, int], CudaDevice] = {}


def is_in_use() -> bool:
    """Whether this process has used the memory of a GPU or launched there, apart from what torch does."""
    driver = open_driver()
    return any(device.is_in_use() for (opened, _), device in _devices.items() if opened is driver)


def cuda_device(ordinal: int | None = None) -> CudaDevice:
    """A GPU by its number; without one the current one.

    Raises:
        CudaError: there is no driver, or no such GPU.
    """
    key = cuda_driver(), streams.current_device() if ordinal is None else ordinal
    found = _devices.get(key)
    return _devices.setdefault(key, CudaDevice(*key)) if found is None else found


def device_of(view: ArrayView) -> CudaDevice:
    """The GPU that an array is on.

    Raises:
        CudaError: there is no driver, or the address is no memory that it knows.
    """
    _, _, number = view.memory.partition(":")
    if number:
        return cuda_device(int(number))
    if not view.address:  # an empty array
        return cuda_device()
    with cuda_device().current() as driver:
        return cuda_device(driver.get("cuPointerGetAttribute", c_int, structs.POINTER_DEVICE, c_uint64(view.address)))
