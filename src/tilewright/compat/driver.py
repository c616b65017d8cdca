"""`triton.runtime.driver`: the machine that kernels run on, as programs for Triton ask for it.

    driver.active.get_active_torch_device()        # device(type='cpu')
    driver.active.get_current_target()             # GPUTarget(backend='cpu', arch='x86_64', warp_size=0)

Nothing in Tilewright goes through here. Where a program divides by a figure that only GPUs have, it is not zero.
"""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.compat.torch_bridge import torch
from tilewright.compat.unavailable import unavailable
from tilewright.runtime.testing.measure import do_bench

Benchmarker = Callable[..., Any]
"""A function that measures a call."""

BENCHMARK_CACHE_BYTES = 256 << 20
"""Writing this much leaves nothing else in the caches."""
REGISTERS = 65536
LEAST_TILE_BYTES = 256 << 10


class DriverBase(ABC):
    """What a program may ask of a machine."""

    @classmethod
    @abstractmethod
    def is_active(cls) -> bool:
        """Whether there is such a machine."""

    @abstractmethod
    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of an argument whose type in signatures is `ty`."""

    @abstractmethod
    def get_current_target(self) -> Any:
        """What kernels are compiled for."""

    @abstractmethod
    def get_active_torch_device(self) -> Any:
        """Where torch should put tensors."""

    @abstractmethod
    def get_benchmarker(self) -> Benchmarker:
        """The function that measures a call."""


class GPUDriver(DriverBase):
    """A GPU, for back ends that other packages bring along."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int | None) -> Any:
        """Zeroed memory that a profiler inside kernels writes to, ordered behind the work of a stream.

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
            "multiprocessor_count": _cores(),
            "max_shared_mem": max(_second_level_cache(), LEAST_TILE_BYTES),
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
        return GPUTarget("cpu", platform.machine(), 0)

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
        """No CUDA capability."""
        return (0, 0)

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory for `clear_cache`."""
        library = torch()
        return library.empty(BENCHMARK_CACHE_BYTES, dtype=library.int8)

    def clear_cache(self, cache: Any) -> None:
        """Drive everything out of the caches."""
        cache.zero_()


@dataclass(frozen=True)
class Backend:
    """What compiles for a kind of machine, and what runs there."""

    name: str
    compiler: type[BaseBackend]
    driver: type[DriverBase]


INSTALLED = {"cpu": Backend("cpu", CpuBackend, CpuDriver)}
"""The back ends that are always there, by name."""


class DriverConfig:
    """The driver in use; `active` and `default` are made when they are asked for."""

    def __init__(self) -> None:
        self._default: DriverBase | None = None
        self._active: DriverBase | None = None

    @property
    def default(self) -> DriverBase:
        """The driver of this machine."""
        if self._default is None:
            self._default = CpuDriver()
        return self._default

    @property
    def active(self) -> DriverBase:
        """The driver that programs see."""
        if self._active is None:
            self._active = self.default
        return self._active

    def set_active(self, driver: DriverBase) -> None:
        """Show programs another driver; kernels run on the CPU all the same."""
        self._active = driver

    def reset_active(self) -> None:
        """Back to the default."""
        self._active = self.default

    def set_active_to_cpu(self) -> None:
        """Back to the CPU."""
        self._active = CpuDriver()

    def set_active_to_gpu(self) -> str:
        """There is none.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("there is no active GPU driver")

    def get_active_gpus(self) -> list[str]:
        """None."""
        return []


def get_device_key() -> str:
    """What stands for the CPU in `JITFunction.device_caches`."""
    return "cpu:0"


def _cores() -> int:
    """The cores that the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
