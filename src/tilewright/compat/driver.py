"""`triton.runtime.driver`: the properties of the machine, with Triton's interface.

    driver.active.get_active_torch_device()        # device(type='cpu'), or 'cuda:0' where torch has GPUs
    driver.active.get_current_target()             # GPUTarget(backend='cpu', arch='x86_64', warp_size=1)

Launches do not use this driver: they run on the device of their arguments. Figures that only GPUs have are not zero for
a CPU, because programs divide by them. The base classes have Triton's names, as other packages may subclass them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import cuda
from tilewright.backends.base import BaseBackend, GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.backends.nvidia.backend import NvidiaBackend
from tilewright.compat.torch_bridge import torch
from tilewright.compat.unavailable import unavailable
from tilewright.runtime import devices
from tilewright.runtime.build import current_target
from tilewright.runtime.drivers.cuda import streams
from tilewright.runtime.drivers.cuda.gpu import maximal_clusters, set_printf_memory
from tilewright.runtime.drivers.cuda.streams import CACHE_BYTES
from tilewright.runtime.testing.measure import do_bench
from tilewright.support import knobs
from tilewright.support.deprecation import warn_deprecated
from tilewright.support.system import SYSTEM

Benchmarker = Callable[..., Any]
"""A function that measures a call."""


class DriverBase(ABC):
    """A driver: the queries of a machine that programs may make."""

    @classmethod
    @abstractmethod
    def is_active(cls) -> bool:
        """Whether there is such a machine."""

    @abstractmethod
    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of an argument whose type in signatures is `ty`."""

    @abstractmethod
    def get_current_target(self) -> Any:
        """The target that kernels are compiled for."""

    @abstractmethod
    def get_active_torch_device(self) -> Any:
        """The device on which torch should put tensors."""

    @abstractmethod
    def get_benchmarker(self) -> Benchmarker:
        """The function that measures a call."""


class GPUDriver(DriverBase):
    """A GPU, for back ends that other packages bring along."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int | None) -> Any:
        """The zeroed memory that a profiler inside kernels writes to, ordered behind the work of a stream.

        Args:
            size: bytes.
            alignment: torch's memory is aligned well enough.
            stream: the handle of the stream, 0 for the default one; None: no order is needed.
        """
        library, device = torch(), self.get_active_torch_device()
        if stream is None:
            return library.zeros(size, dtype=library.int8, device=device)
        streams = self.get_device_interface()
        chosen = streams.ExternalStream(stream, device=device) if stream else streams.default_stream(device)
        with streams.stream(chosen):
            scratch = library.zeros(size, dtype=library.int8, device=device)
        if stream:
            scratch.record_stream(chosen)
        return scratch

    def get_device_interface(self) -> Any:
        """torch's module for this kind of device."""
        return torch().cuda


class Gpus:
    """Questions about NVIDIA's GPUs that a driver and its utilities answer."""

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

    get_default_stream = get_current_stream  # that launches go to when they do not say


class CudaUtilities(Gpus):
    """`driver.active.utils`."""

    load_binary = staticmethod(unavailable("driver.active.utils.load_binary", "kernels are loaded by Tilewright"))
    unload_module = staticmethod(unavailable("driver.active.utils.unload_module", "kernels are unloaded by Tilewright"))

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """Figures of a GPU, under Triton's names."""
        return cuda.device(device).properties()

    def set_printf_fifo_size(self, size: int) -> None:
        """Set the number of bytes that kernels may print before a synchronisation.

        Raises:
            ValueError: it is negative.
            CudaError: kernels have printed already.
        """
        set_printf_memory(cuda.device(), size)

    def cuOccupancyMaxActiveClusters(self, function: int, shared: int, programs: int) -> int:  # noqa: N802 - Triton's
        """The number of clusters of a loaded kernel that run at a time: `programs` programs, `shared` bytes each."""
        return maximal_clusters(cuda.device(), function, shared, programs)


class CudaDriver(Gpus, GPUDriver):
    """NVIDIA's GPUs."""

    def __init__(self) -> None:
        self.utils = CudaUtilities()

    @classmethod
    def is_active(cls) -> bool:
        """Whether torch has a GPU or, without torch, the machine."""
        return cuda.has_gpu()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The type of the driver's interface for C."""
        if ty.startswith("*"):
            return "CUdeviceptr"
        if ty.startswith("tensordesc") or ty == "nvTmaDesc":
            return "CUtensorMap"
        return CUDA_C_TYPES[ty]

    def get_current_target(self) -> GPUTarget:
        return cuda.device().target

    def get_active_torch_device(self) -> Any:
        return torch().device("cuda", streams.current_device())

    def get_benchmarker(self) -> Benchmarker:
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory for `clear_cache`."""
        return cuda.empty(CACHE_BYTES, "int8")

    def clear_cache(self, cache: Any) -> None:
        """Drive everything out of the caches."""
        clear: Callable[[], object] = cache.clear if isinstance(cache, cuda.DeviceArray) else cache.zero_
        clear()


CUDA_C_TYPES = {
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("bf16", "f32", "fp16", "fp32", "fp64"), "double"),
    "i1": "int8_t",
    "u1": "uint8_t",
}


BENCHMARK_CACHE_BYTES = 256 << 20
"""Bytes to write so that nothing else is left in the caches."""
REGISTERS = 65536
MIN_TILE_BYTES = 256 << 10


class CpuUtilities:
    """`driver.active.utils`."""

    load_binary = staticmethod(unavailable("driver.active.utils.load_binary", "kernels are loaded by Tilewright"))
    unload_module = staticmethod(
        unavailable("driver.active.utils.unload_module", "kernels stay until the process ends")
    )

    def get_device_properties(self, device: int | None = None) -> dict[str, int]:
        """Figures of the machine, under Triton's names.

        `multiprocessor_count` is the number of cores that the process may use, `max_shared_mem` the size of a core's
        second-level cache: larger tiles work, but not fast. The others let computations for a GPU end well.
        """
        return {
            "multiprocessor_count": SYSTEM.usable_cpus(),
            "max_shared_mem": max(_second_level_cache(), MIN_TILE_BYTES),
            "max_num_regs": REGISTERS,
            "warpSize": 1,
        }


class CpuDriver(DriverBase):
    """This machine."""

    def __init__(self) -> None:
        self.utils = CpuUtilities()

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "void*" if ty.startswith("*") else C_TYPES[ty]

    def get_current_target(self) -> GPUTarget:
        """The CPU that is compiled for, or the simulated GPU that the program has chosen for its launches."""
        target = current_target()
        return target if target.backend == "cuda" else GPUTarget("cpu", target.arch, 1)

    def get_active_torch_device(self) -> Any:
        return torch().device("cpu")

    def get_benchmarker(self) -> Benchmarker:
        return do_bench

    def get_device_interface(self) -> Any:
        """torch's module for this kind of device."""
        return torch().cpu

    def get_current_device(self) -> int:
        """0: there is one CPU."""
        return 0

    def set_current_device(self, device: Any) -> None:
        """Does nothing: there is one CPU."""

    def get_current_stream(self, device: Any = None) -> int:
        """0: a launch is done when it returns."""
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """(0, 0), or that of the simulated GPU."""
        target = self.get_current_target()
        return divmod(int(target.arch), 10) if target.backend == "cuda" else (0, 0)

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory for `clear_cache`."""
        library = torch()
        return library.empty(BENCHMARK_CACHE_BYTES, dtype=library.int8)

    def clear_cache(self, cache: Any) -> None:
        """Drive everything out of the caches."""
        cache.zero_()


@dataclass(frozen=True)
class Backend:
    """The compiler for a kind of machine, and the driver that runs kernels there."""

    name: str
    compiler: type[BaseBackend]
    driver: type[DriverBase]


INSTALLED = {"cpu": Backend("cpu", CpuBackend, CpuDriver), "nvidia": Backend("nvidia", NvidiaBackend, CudaDriver)}
"""The back ends that are always there, by name."""


class DriverConfig:
    """The driver in use; `active` and `default` are made when they are asked for."""

    def __init__(self) -> None:
        self._default: DriverBase | None = None
        self._active: DriverBase | None = None

    @property
    def default(self) -> DriverBase:
        """The driver of this machine.

        Raises:
            RuntimeError: TRITON_DEFAULT_BACKEND names no driver, or one that is not active.
        """
        if self._default is None:
            named = knobs.tilewright.default_backend
            self._default = _driver(named) if named else CudaDriver() if CudaDriver.is_active() else CpuDriver()
        return self._default

    @property
    def active(self) -> DriverBase:
        """The driver that programs see."""
        if self._active is None:
            self._active = self.default
        return self._active

    @property
    def utils(self) -> Any:
        """The deprecated name of `active.utils`, until 2.2."""
        warn_deprecated("triton.runtime.driver.utils", "triton.runtime.driver.active.utils")
        return utilities(self.active)

    def set_active(self, driver: DriverBase) -> None:
        """Show programs another driver; kernels run where their arguments are all the same."""
        self._active = driver

    def reset_active(self) -> None:
        """Go back to the default; kernels run where their arguments are."""
        devices.choose(devices.BY_ARGUMENTS)
        self._active = self.default

    def set_active_to_cpu(self) -> None:
        """The CPU; kernels run there, and refuse arrays on GPUs."""
        devices.choose(devices.CPU)
        self._active = CpuDriver()

    def set_active_to_gpu(self) -> str:
        """The GPU; kernels run there, and refuse arrays on the CPU. Gives its kind, `cuda`.

        Raises:
            RuntimeError: there is none.
        """
        self._active = _driver("cuda")
        devices.choose(devices.GPU)
        return "cuda"

    def get_active_gpus(self) -> list[str]:
        """The kinds of GPUs that there are."""
        return ["cuda"] if CudaDriver.is_active() else []


def _driver(name: str) -> DriverBase:
    """An active driver, by its name."""
    known: dict[str, type[CpuDriver | CudaDriver]] = {"cpu": CpuDriver, "cuda": CudaDriver, "nvidia": CudaDriver}
    found = known.get(name)
    if found is None or not found.is_active():
        raise RuntimeError(f"there is no active driver for {name!r}")
    return found()


driver = DriverConfig()
"""`triton.runtime.driver`."""


def utilities(active: Any) -> Any:
    """The `utils` of a driver; drivers of other packages have it, too."""
    return active.utils


def max_shared_mem(device: int | None) -> int:
    """Bytes that the tiles of a program may take on a device of the active driver."""
    return int(utilities(driver.active).get_device_properties(device)["max_shared_mem"])


def get_device_key() -> str:
    """The key of the current device in `JITFunction.device_caches`."""
    device = devices.chosen_device()
    return "cpu:0" if device is None else device.name


def _second_level_cache() -> int:
    try:
        return os.sysconf("SC_LEVEL2_CACHE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this system
        return 0


C_TYPES = {
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    "bf16": "float",
    "fp16": "float",
    "fp32": "float",
    "fp64": "double",
    "i1": "int8_t",
    "u1": "uint8_t",
}
