"""`triton.runtime.driver.active` on a machine with NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import cuda
from tilewright.backends.base import GPUTarget
from tilewright.compat.driver_base import Benchmarker, GPUDriver
from tilewright.compat.torch_bridge import torch
from tilewright.compat.unavailable import unavailable
from tilewright.runtime.drivers.cuda import streams
from tilewright.runtime.drivers.cuda.gpu import maximal_clusters, set_printf_memory
from tilewright.runtime.drivers.cuda.streams import CACHE_BYTES
from tilewright.runtime.testing.measure import do_bench


class CudaUtilities:
    """`driver.active.utils`."""

    load_binary = staticmethod(unavailable("driver.active.utils.load_binary", "kernels are loaded by Tilewright"))
    unload_module = staticmethod(unavailable("driver.active.utils.unload_module", "kernels are unloaded by Tilewright"))

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """Figures of a GPU, under Triton's names."""
        return cuda.device(device).properties()

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Major and minor."""
        return cuda.device(device).capability

    def get_current_device(self) -> int:
        """The number of the current GPU."""
        return streams.current_device()

    def set_current_device(self, device: int) -> None:
        """Make another GPU the current one."""
        streams.use_device(device)

    def get_default_stream(self, device: int | None = None) -> int:
        """The handle of the stream that launches go to when they do not say."""
        return streams.current(cuda.device(device).ordinal)

    def set_printf_fifo_size(self, size: int) -> None:
        """Set the number of bytes that kernels may print before somebody waits for them.

        Raises:
            ValueError: it is negative.
            CudaError: kernels have printed already.
        """
        set_printf_memory(cuda.device(), size)

    def cuOccupancyMaxActiveClusters(self, function: int, shared: int, programs: int) -> int:  # noqa: N802 - Triton's
        """The number of clusters of a loaded kernel that run at a time: `programs` programs, `shared` bytes each."""
        return maximal_clusters(cuda.device(), function, shared, programs)


class CudaDriver(GPUDriver):
    """NVIDIA's GPUs."""

    def __init__(self) -> None:
        self.utils = CudaUtilities()

    @classmethod
    def is_active(cls) -> bool:
        """Whether torch has a GPU or, without torch, the machine."""
        library = streams.imported_torch()
        return cuda.is_available() if library is None else streams.torch_with_gpus() is not None

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The type of the driver's interface for C."""
        if ty.startswith("*"):
            return "CUdeviceptr"
        if ty.startswith("tensordesc") or ty == "nvTmaDesc":
            return "CUtensorMap"
        return C_TYPES[ty]

    def get_current_target(self) -> GPUTarget:
        return cuda.device().target

    def get_active_torch_device(self) -> Any:
        return torch().device("cuda", streams.current_device())

    def get_benchmarker(self) -> Benchmarker:
        return do_bench

    def get_current_device(self) -> int:
        """The number of the current GPU."""
        return streams.current_device()

    def set_current_device(self, device: int) -> None:
        """Make another GPU the current one."""
        streams.use_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """The handle of the current stream of a GPU."""
        return streams.current(cuda.device(device).ordinal)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Major and minor."""
        return cuda.device(device).capability

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory for `clear_cache`."""
        return cuda.empty(CACHE_BYTES, "int8")

    def clear_cache(self, cache: Any) -> None:
        """Drive everything out of the caches."""
        clear: Callable[[], object] = cache.clear if isinstance(cache, cuda.DeviceArray) else cache.zero_
        clear()


C_TYPES = {
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("bf16", "f32", "fp16", "fp32", "fp64"), "double"),
    "i1": "int8_t",
    "u1": "uint8_t",
}
