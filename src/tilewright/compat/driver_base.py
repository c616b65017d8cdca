"""The base classes of drivers, under Triton's names: subclasses may come from other packages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tilewright.compat.torch_bridge import torch

Benchmarker = Callable[..., Any]
"""A function that measures a call."""


class DriverBase(ABC):
    """A driver: what a program may ask of a machine."""

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
