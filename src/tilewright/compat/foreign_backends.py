"""The back ends of GPUs by name: what they say of arguments can be asked; compiling for them cannot.

CUDABackend.get_int_specialization(32, align=True)      # "D"
"""

from __future__ import annotations

from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget, Language, StageTable
from tilewright.compat.unavailable import NotOnCpu


class _GPUBackend(BaseBackend):
    """A back end that cannot compile here."""

    kind = ""

    @classmethod
    def supports_target(cls, target: GPUTarget) -> bool:
        """Whether `target` is a machine of this kind."""
        return target.backend == cls.kind

    def hash(self) -> str:
        """The target."""
        return f"{self.target.backend}-{self.target.arch}"

    def parse_options(self, options: dict[str, Any]) -> Any:
        """Refuses."""
        raise NotOnCpu(f"Tilewright compiles for CPUs, not for {self.target.backend}")

    def add_stages(self, stages: StageTable, options: Any, language: Language = Language.TRITON) -> None:
        """Refuses."""
        self.parse_options({})


class CUDABackend(_GPUBackend):
    """NVIDIA's GPUs."""

    kind = "cuda"


class HIPBackend(_GPUBackend):
    """AMD's GPUs."""

    kind = "hip"
