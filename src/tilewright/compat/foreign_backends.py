"""AMD's back end by name: what it says of arguments can be asked; compiling for it cannot.

HIPBackend.get_int_specialization(32, align=True)      # "D"
"""

from __future__ import annotations

from typing import Any

from tilewright.backends.base import BaseBackend, GPUTarget, Language, StageTable
from tilewright.compat.unavailable import NotOnCpu


class HIPBackend(BaseBackend):
    """AMD's GPUs."""

    @classmethod
    def supports_target(cls, target: GPUTarget) -> bool:
        """Whether `target` is a machine of this kind."""
        return target.backend == "hip"

    def hash(self) -> str:
        """The target."""
        return f"{self.target.backend}-{self.target.arch}"

    def parse_options(self, options: dict[str, Any]) -> Any:
        """Refuses."""
        raise NotOnCpu(f"Tilewright does not compile for {self.target.backend}")

    def add_stages(self, stages: StageTable, options: Any, language: Language = Language.TRITON) -> None:
        """Refuses."""
        self.parse_options({})
